// Removes movement that does nothing or that one node can do.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/passes/simplify/simplify.h"

namespace gpupool::engine {
namespace {

bool ChangesNothing(const Sweep& sweep, const Node& node) {
  const Value& x = sweep.value(node.inputs[0]);
  const Value& y = sweep.value(node.outputs[0]);
  if (x.type() != y.type()) return false;
  switch (node.op) {
    case Op::kReshape:
    case Op::kBroadcast:
    case Op::kCast:
      return true;
    case Op::kConcat:
      return node.inputs.size() == 1;
    // Padding is never negative, so an equal shape means no padding.
    case Op::kPad:
      return true;
    case Op::kSlice: {
      // A slice of the input's size with positive steps is the whole input.
      const auto& steps = node.get<SliceAttributes>().steps;
      return std::all_of(steps.begin(), steps.end(),
                         [](int64_t step) { return step > 0; });
    }
    case Op::kTranspose: {
      const auto& permutation = node.get<TransposeAttributes>().permutation;
      return std::is_sorted(permutation.begin(), permutation.end());
    }
    default:
      return false;
  }
}

// Returns whether the axes with more than one cell keep their order. The
// transpose then moves no bytes.
bool MovesOnlyOnes(const Shape& x, const std::vector<int>& permutation) {
  int last = -1;
  for (const int axis : permutation) {
    if (x[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

void MakeReshape(Sweep& sweep, Node& node) {
  node.op = Op::kReshape;
  node.attributes = ShapeAttributes{sweep.shape(node.outputs[0])};
  sweep.MarkChanged();
}

void SimplifyTranspose(Sweep& sweep, Node& node) {
  auto permutation = node.get<TransposeAttributes>().permutation;
  const Node* before = sweep.Producer(node.inputs[0], Op::kTranspose);
  if (before != nullptr) {
    const auto& first = before->get<TransposeAttributes>().permutation;
    for (int& axis : permutation) axis = first[static_cast<size_t>(axis)];
    node.inputs[0] = before->inputs[0];
    node.attributes = TransposeAttributes{permutation};
    sweep.MarkChanged();
  }
  if (MovesOnlyOnes(sweep.shape(node.inputs[0]), permutation)) {
    MakeReshape(sweep, node);
  }
}

// Returns the axis along which a slice chooses cells, if it is the only one.
std::optional<int> SlicedAxis(const SliceAttributes& slice, const Shape& x) {
  std::optional<int> sliced;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    if (slice.starts[at] == 0 && slice.steps[at] == 1 &&
        slice.sizes[at] == x[axis]) {
      continue;
    }
    if (sliced.has_value()) return std::nullopt;
    sliced = axis;
  }
  return sliced;
}

// Gathers just the cells that a slice of a gather keeps.
absl::Status SimplifySlice(Sweep& sweep, Node& node) {
  if (ChangesNothing(sweep, node)) return absl::OkStatus();
  const Node* before = sweep.Producer(node.inputs[0], Op::kGather);
  if (before == nullptr) return absl::OkStatus();
  const ValueId x = before->inputs[0];
  const Value& indices = sweep.value(before->inputs[1]);
  const AxisAttributes along = before->get<AxisAttributes>();
  const auto& slice = node.get<SliceAttributes>();
  const auto axis = SlicedAxis(slice, sweep.shape(node.inputs[0]));
  if (axis != along.axis || indices.kind != ValueKind::kConstant ||
      indices.shape.rank() != 1 ||
      indices.constant.size() !=
          static_cast<size_t>(indices.shape.elements())) {
    return absl::OkStatus();
  }
  const auto at = static_cast<size_t>(*axis);
  std::vector<double> kept;
  for (int64_t i = 0; i < slice.sizes[at]; ++i) {
    kept.push_back(indices.constant[static_cast<size_t>(slice.starts[at] +
                                                        i * slice.steps[at])]);
  }
  const TensorType type{indices.dtype, Shape{slice.sizes[at]}};
  const ValueId chosen = sweep.Constant(type, std::move(kept));
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(Op::kGather, {x, chosen}, along));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

// Writes a channel shuffle as a gather of channels, which has any layout. As
// exporters write it, the channels of an image become two axes, these are
// swapped, and the two become one again.
absl::Status GatherShuffledChannels(Sweep& sweep, Node& node) {
  const Node* swap = sweep.Producer(node.inputs[0], Op::kTranspose);
  if (swap == nullptr || swap->get<TransposeAttributes>().permutation !=
                             std::vector<int>{0, 2, 1, 3, 4}) {
    return absl::OkStatus();
  }
  const Shape split = sweep.shape(swap->inputs[0]);
  const Node* divide = sweep.Producer(swap->inputs[0], Op::kReshape);
  if (divide == nullptr) return absl::OkStatus();
  const ValueId x = divide->inputs[0];
  const Shape image = sweep.shape(x);
  if (image.rank() != 4 || image != sweep.shape(node.outputs[0]) ||
      image[0] != split[0] || image[1] != split[1] * split[2] ||
      image[2] != split[3] || image[3] != split[4]) {
    return absl::OkStatus();
  }
  std::vector<double> sources;
  for (int64_t channel = 0; channel < image[1]; ++channel) {
    sources.push_back(static_cast<double>(channel % split[1] * split[2] +
                                          channel / split[1]));
  }
  const ValueId indices =
      sweep.Constant({DType::kInt64, Shape{image[1]}}, std::move(sources));
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(Op::kGather, {x, indices}, AxisAttributes{1}));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

absl::Status SimplifyReshape(Sweep& sweep, Node& node) {
  const Node* before = sweep.Producer(node.inputs[0], Op::kReshape);
  if (before == nullptr) return GatherShuffledChannels(sweep, node);
  node.inputs[0] = before->inputs[0];
  sweep.MarkChanged();
  return absl::OkStatus();
}

// Returns whether `to` represents every number of `from` exactly.
bool Holds(DType to, DType from) {
  switch (to) {
    case DType::kFloat64:
      return from != DType::kInt64;
    case DType::kFloat32:
      return from != DType::kFloat64 && from != DType::kInt64 &&
             from != DType::kInt32;
    case DType::kInt64:
      return !IsFloating(from);
    case DType::kInt32:
      return !IsFloating(from) && from != DType::kInt64;
    default:
      return to == from || from == DType::kBool;
  }
}

void SimplifyCast(Sweep& sweep, Node& node) {
  const Node* before = sweep.Producer(node.inputs[0], Op::kCast);
  if (before == nullptr) return;
  const ValueId x = before->inputs[0];
  const DType between = before->get<CastAttributes>().dtype;
  // The first cast can go only if it loses nothing. A cast to bool maps all
  // numbers but 0 to 1.
  if (between == DType::kBool || !Holds(between, sweep.value(x).dtype)) return;
  node.inputs[0] = x;
  sweep.MarkChanged();
}

// Replaces a reduction over axes of one cell by a reshape.
void SimplifyReduce(Sweep& sweep, Node& node) {
  const Shape& x = sweep.shape(node.inputs[0]);
  const auto& axes = node.get<ReduceAttributes>().axes;
  if (std::all_of(axes.begin(), axes.end(),
                  [&x](int axis) { return x[axis] == 1; })) {
    MakeReshape(sweep, node);
  }
}

}  // namespace

absl::Status SimplifyMovement(Sweep& sweep, Node& node) {
  switch (node.op) {
    case Op::kReshape:
      RETURN_IF_ERROR(SimplifyReshape(sweep, node));
      break;
    case Op::kSlice:
      RETURN_IF_ERROR(SimplifySlice(sweep, node));
      break;
    case Op::kTranspose:
      SimplifyTranspose(sweep, node);
      break;
    case Op::kCast:
      SimplifyCast(sweep, node);
      break;
    case Op::kReduce:
      SimplifyReduce(sweep, node);
      break;
    default:
      break;
  }
  if (!node.inputs.empty() && ChangesNothing(sweep, node)) {
    sweep.Replace(node, node.inputs[0]);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
