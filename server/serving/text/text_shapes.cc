#include "server/serving/text/text_shapes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

std::string SizesText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Returns the axis from 0; `rank` is the number of axes that there are.
absl::StatusOr<size_t> AxisOf(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) {
    return engine::Refuse("axis is ", axis, ", the tensor has ", rank,
                          " dimensions");
  }
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

uint64_t ProductOf(absl::Span<const int64_t> sizes) {
  uint64_t product = 1;
  for (const int64_t size : sizes) product *= static_cast<uint64_t>(size);
  return product;
}

// Returns the tensor with another shape of as many elements.
absl::StatusOr<TextTensor> WithShape(const TextTensor& tensor,
                                     std::vector<int64_t> shape,
                                     TextMemory& memory) {
  RETURN_IF_ERROR(memory.TakeElements(tensor.size()));
  TextTensor result = tensor;
  result.shape = std::move(shape);
  return result;
}

absl::Status CheckIndices(const TextTensor& indices) {
  if (indices.kind() == TextKind::kInteger) return absl::OkStatus();
  return engine::Refuse("takes integers as its second input");
}

// Returns which axes of a tensor of `rank` the list names.
absl::StatusOr<std::vector<bool>> NamedAxes(const TextTensor& axes,
                                            size_t rank) {
  RETURN_IF_ERROR(CheckIndices(axes));
  std::vector<bool> named(rank, false);
  for (const int64_t axis : axes.integers) {
    ASSIGN_OR_RETURN(const size_t index, AxisOf(axis, rank));
    if (named[index]) return engine::Refuse("names axis ", axis, " twice");
    named[index] = true;
  }
  return named;
}

// Returns the list of `tensor` that has elements like those of `like`.
const std::vector<absl::string_view>& ListOf(
    const std::vector<absl::string_view>& /*like*/, const TextTensor& tensor) {
  return tensor.texts;
}
const std::vector<int64_t>& ListOf(const std::vector<int64_t>& /*like*/,
                                   const TextTensor& tensor) {
  return tensor.integers;
}
const std::vector<double>& ListOf(const std::vector<double>& /*like*/,
                                  const TextTensor& tensor) {
  return tensor.floats;
}

absl::Status CheckJoined(const TextTensor& first, const TextTensor& other,
                         size_t axis) {
  bool fits =
      other.type == first.type && other.shape.size() == first.shape.size();
  for (size_t i = 0; fits && i < first.shape.size(); ++i) {
    fits = i == axis || other.shape[i] == first.shape[i];
  }
  if (fits) return absl::OkStatus();
  return engine::Refuse("joins tensors of the shapes ", SizesText(first.shape),
                        " and ", SizesText(other.shape), " along axis ", axis,
                        "; types and all other sizes must be equal");
}

// Returns for each axis of `shape` by how much a step moves in a tensor of
// `from`, which is broadcast to it.
std::vector<uint64_t> Strides(absl::Span<const int64_t> from,
                              absl::Span<const int64_t> shape) {
  std::vector<uint64_t> strides(shape.size(), 0);
  uint64_t stride = 1;
  for (size_t i = from.size(); i-- > 0;) {
    if (from[i] != 1) strides[i + shape.size() - from.size()] = stride;
    stride *= static_cast<uint64_t>(from[i]);
  }
  return strides;
}

}  // namespace

absl::StatusOr<TextTensor> ConcatTexts(TextInputs inputs, int64_t axis,
                                       TextMemory& memory) {
  const TextTensor& first = *inputs[0];
  ASSIGN_OR_RETURN(const size_t at, AxisOf(axis, first.shape.size()));
  TextTensor result;
  result.type = first.type;
  result.shape = first.shape;
  result.shape[at] = 0;
  for (const TextTensor* input : inputs) {
    RETURN_IF_ERROR(CheckJoined(first, *input, at));
    result.shape[at] += input->shape[at];
  }
  ASSIGN_OR_RETURN(const uint64_t elements, TextElements(result.shape));
  RETURN_IF_ERROR(memory.TakeElements(elements));
  const absl::Span<const int64_t> sizes = first.shape;
  const uint64_t outer = ProductOf(sizes.subspan(0, at));
  const uint64_t inner = ProductOf(sizes.subspan(at + 1));
  first.Visit([&](const auto& like) {
    auto& to = ListLike(like, result);
    to.reserve(elements);
    for (uint64_t i = 0; i < outer; ++i) {
      for (const TextTensor* input : inputs) {
        const auto& from = ListOf(like, *input);
        const uint64_t run = inner * static_cast<uint64_t>(input->shape[at]);
        const auto begin = from.begin() + static_cast<ptrdiff_t>(i * run);
        to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(run));
      }
    }
  });
  return result;
}

absl::StatusOr<TextTensor> GatherTexts(TextInputs inputs, int64_t axis,
                                       TextMemory& memory) {
  const TextTensor& data = *inputs[0];
  const TextTensor& indices = *inputs[1];
  RETURN_IF_ERROR(CheckIndices(indices));
  ASSIGN_OR_RETURN(const size_t at, AxisOf(axis, data.shape.size()));
  const absl::Span<const int64_t> sizes = data.shape;
  TextTensor result;
  result.type = data.type;
  result.shape.assign(sizes.begin(),
                      sizes.begin() + static_cast<ptrdiff_t>(at));
  result.shape.insert(result.shape.end(), indices.shape.begin(),
                      indices.shape.end());
  result.shape.insert(result.shape.end(),
                      sizes.begin() + static_cast<ptrdiff_t>(at) + 1,
                      sizes.end());
  ASSIGN_OR_RETURN(const uint64_t elements, TextElements(result.shape));
  RETURN_IF_ERROR(memory.TakeElements(elements));
  const int64_t size = sizes[at];
  for (const int64_t index : indices.integers) {
    if (index >= -size && index < size) continue;
    return engine::Refuse("takes index ", index, " of an axis of ", size);
  }
  const uint64_t outer = ProductOf(sizes.subspan(0, at));
  const uint64_t inner = ProductOf(sizes.subspan(at + 1));
  data.Visit([&](const auto& from) {
    auto& to = ListLike(from, result);
    to.reserve(elements);
    for (uint64_t i = 0; i < outer; ++i) {
      for (const int64_t index : indices.integers) {
        const auto place =
            static_cast<uint64_t>(index < 0 ? index + size : index);
        const uint64_t start =
            (i * static_cast<uint64_t>(size) + place) * inner;
        const auto begin = from.begin() + static_cast<ptrdiff_t>(start);
        to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(inner));
      }
    }
  });
  return result;
}

absl::StatusOr<TextTensor> ReshapeTexts(TextInputs inputs, bool zeros,
                                        TextMemory& memory) {
  const TextTensor& data = *inputs[0];
  RETURN_IF_ERROR(CheckIndices(*inputs[1]));
  std::vector<int64_t> shape = inputs[1]->integers;
  const std::string asked = SizesText(shape);
  size_t open = shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zeros && i < data.shape.size()) {
      shape[i] = data.shape[i];
    } else if (shape[i] == -1 && open == shape.size()) {
      open = i;
      shape[i] = 1;
    }
  }
  ASSIGN_OR_RETURN(const uint64_t known, TextElements(shape));
  if (open < shape.size() && known > 0) {
    shape[open] = static_cast<int64_t>(data.size() / known);
  }
  if (TextElements(shape).value_or(kMostTextElements + 1) != data.size()) {
    return engine::Refuse("gives a tensor of the shape ", SizesText(data.shape),
                          " the shape ", asked, ", which has other elements");
  }
  return WithShape(data, std::move(shape), memory);
}

absl::StatusOr<TextTensor> SqueezeTexts(TextInputs inputs, TextMemory& memory) {
  const TextTensor& data = *inputs[0];
  std::vector<bool> named(data.shape.size(), false);
  if (inputs.size() > 1) {
    ASSIGN_OR_RETURN(named, NamedAxes(*inputs[1], data.shape.size()));
  }
  std::vector<int64_t> shape;
  for (size_t i = 0; i < data.shape.size(); ++i) {
    if (named[i] && data.shape[i] != 1) {
      return engine::Refuse("removes axis ", i, " of the shape ",
                            SizesText(data.shape), ", whose size is not 1");
    }
    const bool removed = inputs.size() > 1 ? named[i] : data.shape[i] == 1;
    if (!removed) shape.push_back(data.shape[i]);
  }
  return WithShape(data, std::move(shape), memory);
}

absl::StatusOr<TextTensor> UnsqueezeTexts(TextInputs inputs,
                                          TextMemory& memory) {
  const TextTensor& data = *inputs[0];
  const size_t rank = data.shape.size() + inputs[1]->integers.size();
  ASSIGN_OR_RETURN(const std::vector<bool> added, NamedAxes(*inputs[1], rank));
  std::vector<int64_t> shape;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    shape.push_back(added[i] ? 1 : data.shape[next++]);
  }
  return WithShape(data, std::move(shape), memory);
}

absl::StatusOr<BroadcastPairs> Broadcast(const TextTensor& left,
                                         const TextTensor& right,
                                         TextMemory& memory) {
  BroadcastPairs pairs;
  pairs.shape.resize(std::max(left.shape.size(), right.shape.size()), 1);
  for (const TextTensor* tensor : {&left, &right}) {
    const size_t skip = pairs.shape.size() - tensor->shape.size();
    for (size_t i = 0; i < tensor->shape.size(); ++i) {
      int64_t& size = pairs.shape[skip + i];
      const int64_t other = tensor->shape[i];
      if (size != other && size != 1 && other != 1) {
        return engine::Refuse("cannot broadcast the shapes ",
                              SizesText(left.shape), " and ",
                              SizesText(right.shape));
      }
      if (size == 1) size = other;
    }
  }
  ASSIGN_OR_RETURN(const uint64_t elements, TextElements(pairs.shape));
  RETURN_IF_ERROR(memory.TakeElements(elements));
  const std::pair<const TextTensor*, std::vector<uint32_t>*> sides[] = {
      {&left, &pairs.left}, {&right, &pairs.right}};
  for (const auto& [tensor, places] : sides) {
    const std::vector<uint64_t> strides = Strides(tensor->shape, pairs.shape);
    places->reserve(elements);
    for (uint64_t i = 0; i < elements; ++i) {
      uint64_t rest = i;
      uint64_t place = 0;
      for (size_t axis = pairs.shape.size(); axis-- > 0;) {
        const auto size = static_cast<uint64_t>(pairs.shape[axis]);
        place += rest % size * strides[axis];
        rest /= size;
      }
      places->push_back(static_cast<uint32_t>(place));
    }
  }
  return pairs;
}

}  // namespace gpupool::server
