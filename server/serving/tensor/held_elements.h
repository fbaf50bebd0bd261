// Converts the elements of tensors between the type of requests and answers and
// the wider type in which slots hold them (HeldType). Only UINT16, INT16,
// UINT32 and UINT64 have a wider one.
//
// Pure functions. Elements may have any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// An element and its position.
struct FoundElement {
  uint64_t index = 0;
  uint64_t number = 0;
};

// Returns the first element of `bytes` that the wider type of `type` does not
// have: a UINT64 above 2^63 - 1. `bytes` must have whole elements.
std::optional<FoundElement> FindUnholdable(v1::DataType type,
                                           absl::Span<const std::byte> bytes);

// Copies elements of `type` from `from` to `to` in the wider type, exactly.
// FindUnholdable must have found nothing. `from` must have whole elements, and
// `to` the space for as many.
void CopyToHeld(v1::DataType type, absl::Span<const std::byte> from,
                std::byte* to);

// Copies elements in the wider type from `from` to `to` as `type`. A number
// that `type` does not have becomes the one that is equal to it modulo
// 2^bits, as in ONNX the results of integer operators do. Operators that
// saturate, such as QuantizeLinear, have done so before. `from` must have whole
// elements, and `to` the space for as many.
void CopyFromHeld(v1::DataType type, absl::Span<const std::byte> from,
                  std::byte* to);

}  // namespace gpupool::server
