#include "server/serving/tensor/held_elements.h"

#include <cstring>
#include <limits>

namespace gpupool::server {
namespace {

template <typename From, typename To>
void ConvertAll(absl::Span<const std::byte> from, std::byte* to) {
  const size_t count = from.size() / sizeof(From);
  for (size_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, from.data() + i * sizeof(From), sizeof(From));
    // C++20 defines conversions of integers as modulo 2^bits.
    const To y = static_cast<To>(x);
    std::memcpy(to + i * sizeof(To), &y, sizeof(To));
  }
}

}  // namespace

std::optional<FoundElement> FindUnholdable(v1::DataType type,
                                           absl::Span<const std::byte> bytes) {
  if (type != v1::UINT64) return std::nullopt;
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  for (uint64_t i = 0; i < bytes.size() / sizeof(uint64_t); ++i) {
    uint64_t number = 0;
    std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
    if (number > kLargest) return FoundElement{i, number};
  }
  return std::nullopt;
}

void CopyToHeld(v1::DataType type, absl::Span<const std::byte> from,
                std::byte* to) {
  switch (type) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, held) \
  case v1::message:                                              \
    return ConvertAll<number, held>(from, to);
#include "engine/base/widened_types.inc"
    default:
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
}

void CopyFromHeld(v1::DataType type, absl::Span<const std::byte> from,
                  std::byte* to) {
  switch (type) {
#define GPUPOOL_WIDENED_TYPE(type, message, number, dtype, held) \
  case v1::message:                                              \
    return ConvertAll<held, number>(from, to);
#include "engine/base/widened_types.inc"
    default:
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
}

}  // namespace gpupool::server
