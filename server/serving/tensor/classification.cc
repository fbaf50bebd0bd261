#include "server/serving/tensor/classification.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "server/serving/tensor/bytes_elements.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

// IEEE 754 numbers of 16 bits, and the upper halves of those of 32 bits.
struct HalfElement {
  uint16_t bits;
};
struct BrainElement {
  uint16_t bits;
};

float Widen(BrainElement x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

float Widen(HalfElement x) {
  const uint32_t exponent = (x.bits >> 10) & 0x1f;
  const auto mantissa = static_cast<float>(x.bits & 0x3ff);
  const float sign = (x.bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1f) {
    return mantissa == 0 ? sign * INFINITY : NAN;
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, static_cast<int>(exponent) - 25);
}

template <typename Number>
requires std::is_arithmetic_v<Number> Number Widen(Number x) { return x; }

// Returns element `index` of the row.
template <typename Element>
auto At(const std::byte* row, size_t index) {
  Element element;
  std::memcpy(&element, row + index * sizeof(Element), sizeof(Element));
  return Widen(element);
}

// Sorts NaN below all numbers.
template <typename Number>
bool IsAbove(Number a, Number b) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(a)) return false;
    if (std::isnan(b)) return true;
  }
  return a > b;
}

template <typename Element>
void ClassifyRow(const std::byte* row, const ClassifiedRows& rows,
                 std::vector<size_t>& order, std::string& out) {
  std::vector<size_t> all(rows.elements);
  std::iota(all.begin(), all.end(), size_t{0});
  std::partial_sort_copy(all.begin(), all.end(), order.begin(), order.end(),
                         [row](size_t a, size_t b) {
                           const auto x = At<Element>(row, a);
                           const auto y = At<Element>(row, b);
                           if (IsAbove(x, y)) return true;
                           return !IsAbove(y, x) && a < b;
                         });
  for (const size_t index : order) {
    std::string text =
        absl::StrCat(std::to_string(At<Element>(row, index)), ":", index);
    if (index < rows.labels.size() && !rows.labels[index].empty()) {
      absl::StrAppend(&text, ":", rows.labels[index]);
    }
    AppendBytesElement(text, &out);
  }
}

template <typename Element>
std::string ClassifyAll(const ClassifiedRows& rows, uint64_t classes) {
  std::vector<size_t> order(classes);
  std::string out;
  for (uint64_t i = 0; i < rows.rows; ++i) {
    ClassifyRow<Element>(
        rows.bytes.data() + i * rows.elements * sizeof(Element), rows, order,
        out);
  }
  return out;
}

using Classifier = std::string (*)(const ClassifiedRows& rows,
                                   uint64_t classes);

// Returns null for a type whose elements are no numbers.
Classifier ClassifierOf(v1::DataType type) {
  switch (type) {
    case v1::FLOAT32:
      return &ClassifyAll<float>;
    case v1::FLOAT64:
      return &ClassifyAll<double>;
    case v1::FLOAT16:
      return &ClassifyAll<HalfElement>;
    case v1::BFLOAT16:
      return &ClassifyAll<BrainElement>;
    case v1::INT8:
      return &ClassifyAll<int8_t>;
    case v1::INT16:
      return &ClassifyAll<int16_t>;
    case v1::INT32:
      return &ClassifyAll<int32_t>;
    case v1::INT64:
      return &ClassifyAll<int64_t>;
    case v1::UINT8:
      return &ClassifyAll<uint8_t>;
    case v1::UINT16:
      return &ClassifyAll<uint16_t>;
    case v1::UINT32:
      return &ClassifyAll<uint32_t>;
    case v1::UINT64:
      return &ClassifyAll<uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

absl::Status CheckClassified(absl::string_view output, v1::DataType type) {
  if (ClassifierOf(type) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "output '", output, "' of datatype ", DataTypeName(type),
      " has no numbers to classify; leave its parameter classification out"));
}

std::string Classify(const ClassifiedRows& rows, uint64_t classes) {
  return ClassifierOf(rows.type)(rows, classes);
}

}  // namespace gpupool::server
