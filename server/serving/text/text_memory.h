// The memory of one run of a TextProgram: texts that it makes, and a bound of
// all that its values take.
//
// Thread-safety: one thread. Ownership: owns the texts, so it must outlive the
// values that view them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

class TextMemory {
 public:
  // Most bytes of the values of a request.
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  // Counts bytes before they are taken. RESOURCE_EXHAUSTED when they are too
  // many.
  absl::Status Take(uint64_t bytes) {
    if (bytes > kMostBytes - taken_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the values of a request take more than ", kMostBytes,
          " bytes; send fewer rows or shorter texts in one request"));
    }
    taken_ += bytes;
    return absl::OkStatus();
  }
  // Counts elements of a value.
  absl::Status TakeElements(uint64_t elements) {
    constexpr uint64_t kElementBytes = sizeof(absl::string_view);
    if (elements > kMostBytes / kElementBytes) return Take(kMostBytes + 1);
    return Take(elements * kElementBytes);
  }

  // Keeps a text whose bytes were taken.
  absl::string_view Keep(std::string text) {
    return texts_.emplace_back(std::move(text));
  }

  uint64_t taken() const { return taken_; }

 private:
  uint64_t taken_ = 0;
  std::deque<std::string> texts_;  // a deque, so that views stay
};

}  // namespace gpupool::server
