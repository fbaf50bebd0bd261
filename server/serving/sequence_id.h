// Where a request belongs in a sequence: the parameters sequence_id,
// sequence_start and sequence_end of the open inference protocol.
//
// Values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace gpupool::server {

// Longest text of an id, in bytes, as in Triton.
inline constexpr size_t kMaxSequenceIdBytes = 128;

// Numbers and texts never name the same sequence.
struct SequenceId {
  uint64_t number = 0;
  std::string text = {};  // empty: `number` is the id

  bool IsSet() const { return number != 0 || !text.empty(); }
  // Returns the id for messages: "7" or "'abc'".
  std::string Shown() const {
    return text.empty() ? absl::StrCat(number) : absl::StrCat("'", text, "'");
  }
  auto operator<=>(const SequenceId&) const = default;
};

struct SequencePlace {
  SequenceId id = {};  // not set: the request belongs to no sequence
  bool start = false;
  bool end = false;

  bool IsEmpty() const { return !id.IsSet() && !start && !end; }
};

}  // namespace gpupool::server
