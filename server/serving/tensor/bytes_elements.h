// Elements of BYTES tensors, as raw contents and binary data have them: each
// with its length in 4 bytes, little-endian, before it.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Bytes before each element.
inline constexpr uint64_t kBytesElementHead = 4;

// Appends the element, which must be below 2^32 bytes.
void AppendBytesElement(absl::string_view element, std::string* raw);

// Returns views of the elements in `raw`. InvalidArgument, whose text follows
// the name of a tensor, when they are not exactly `count` or one ends behind
// the end of `raw`.
absl::StatusOr<std::vector<absl::string_view>> ReadBytesElements(
    absl::string_view raw, uint64_t count);

}  // namespace gpupool::server
