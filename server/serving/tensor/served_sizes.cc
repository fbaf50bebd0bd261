#include "server/serving/tensor/served_sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

template <typename Number>
std::vector<std::byte> BytesOf(Number number) {
  std::vector<std::byte> bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// Takes the upper half of a float: rounds towards zero.
uint16_t Bfloat16(double number) {
  const float single = static_cast<float>(number);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
}

// Converts to IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 bits
// of fraction. Rounds towards zero.
uint16_t Float16(double number) {
  const uint16_t sign = std::signbit(number) ? 0x8000 : 0;
  const double size = std::abs(number);
  if (std::isnan(number)) return 0x7e00;
  if (size >= 65536) return sign | 0x7c00;
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  if (size == 0 || exponent < -13) {  // zero or subnormal: multiples of 2^-24
    return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  }
  const auto bits = static_cast<uint16_t>((2 * fraction - 1) * 1024);
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | bits);
}

std::string SizesText(const SizedDimension& dimension) {
  if (dimension.padded) {
    return absl::StrCat(std::min<int64_t>(1, dimension.minimum), " to ",
                        dimension.maximum);
  }
  if (!dimension.sizes.empty()) return absl::StrJoin(dimension.sizes, ", ");
  return absl::StrCat(dimension.minimum, " to ", dimension.maximum);
}

uint64_t Product(absl::Span<const int64_t> shape) {
  uint64_t product = 1;
  for (int64_t size : shape) product *= static_cast<uint64_t>(size);
  return product;
}

// Copies the common corner of two tensors of the same rank. From run_axis + 1
// on the shapes are equal, so that a run of rows is one contiguous copy.
void CopyCorner(const TensorPlace<const std::byte>& from,
                uint64_t element_bytes, const TensorPlace<std::byte>& to) {
  if (Product(from.shape) == 0 || Product(to.shape) == 0) return;
  const size_t rank = from.shape.size();
  size_t run_axis = rank;  // first axis of the equal tail
  while (run_axis > 0 && from.shape[run_axis - 1] == to.shape[run_axis - 1]) {
    --run_axis;
  }
  uint64_t inner = element_bytes * Product(from.shape.subspan(run_axis));
  if (run_axis == 0) {
    std::memcpy(to.data, from.data, inner);
    return;
  }
  const size_t axis = run_axis - 1;
  const auto run =
      static_cast<uint64_t>(std::min(from.shape[axis], to.shape[axis]));
  std::vector<int64_t> at(axis, 0);
  while (true) {
    uint64_t from_row = 0;
    uint64_t to_row = 0;
    for (size_t d = 0; d < axis; ++d) {
      const auto index = static_cast<uint64_t>(at[d]);
      from_row = from_row * static_cast<uint64_t>(from.shape[d]) + index;
      to_row = to_row * static_cast<uint64_t>(to.shape[d]) + index;
    }
    std::memcpy(
        to.data + to_row * inner * static_cast<uint64_t>(to.shape[axis]),
        from.data + from_row * inner * static_cast<uint64_t>(from.shape[axis]),
        run * inner);
    size_t d = axis;
    while (d > 0 &&
           ++at[d - 1] == std::min(from.shape[d - 1], to.shape[d - 1])) {
      at[--d] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

std::vector<SizedDimension> SizedDimensions(const v1::ModelSpec& spec) {
  std::vector<SizedDimension> dimensions;
  for (const auto& [name, proto] : spec.onnx().served_dimensions()) {
    SizedDimension& dimension = dimensions.emplace_back();
    dimension.name = name;
    dimension.sizes = {proto.sizes().begin(), proto.sizes().end()};
    const bool listed = !dimension.sizes.empty();
    dimension.minimum = listed ? dimension.sizes.front() : proto.minimum();
    dimension.maximum = listed ? dimension.sizes.back() : proto.maximum();
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return dimensions;
}

absl::StatusOr<int64_t> SizeToServe(absl::string_view model,
                                    absl::string_view input,
                                    const SizedDimension& dimension,
                                    int64_t size) {
  const auto next =
      std::lower_bound(dimension.sizes.begin(), dimension.sizes.end(), size);
  if (dimension.sizes.empty()) {
    if (size >= dimension.minimum && size <= dimension.maximum) return size;
  } else if (next != dimension.sizes.end() &&
             (*next == size || (dimension.padded && size >= 1))) {
    return *next;
  }
  const bool between = !dimension.sizes.empty() && !dimension.padded &&
                       size >= 0 && size < dimension.maximum;
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension '", dimension.name, "' of input '", input, "' is ", size,
      "; model ", model, " takes ", SizesText(dimension),
      between ? "; fill the request up, or upload the model with padding"
              : "; send another size or upload the model for more"));
}

std::vector<std::byte> ElementOf(v1::DataType data_type, double number) {
  switch (data_type) {
    case v1::FLOAT32:
      return BytesOf(static_cast<float>(number));
    case v1::FLOAT64:
      return BytesOf(number);
    case v1::FLOAT16:
      return BytesOf(Float16(number));
    case v1::BFLOAT16:
      return BytesOf(Bfloat16(number));
    default:
      break;
  }
  // Import has checked that the number is whole. The machine is little-endian,
  // so that the low bytes come first.
  std::vector<std::byte> bytes = BytesOf(static_cast<int64_t>(number));
  bytes.resize(ElementBytes(data_type));
  return bytes;
}

void PadTensor(const TensorPlace<const std::byte>& from,
               absl::Span<const std::byte> element,
               const TensorPlace<std::byte>& to) {
  const uint64_t elements = Product(to.shape);
  if (!std::equal(from.shape.begin(), from.shape.end(), to.shape.begin())) {
    for (uint64_t i = 0; i < elements; ++i) {
      std::memcpy(to.data + i * element.size(), element.data(), element.size());
    }
  }
  CopyCorner(from, element.size(), to);
}

void CutTensor(const TensorPlace<const std::byte>& from, uint64_t element_bytes,
               const TensorPlace<std::byte>& to) {
  CopyCorner(from, element_bytes, to);
}

}  // namespace gpupool::server
