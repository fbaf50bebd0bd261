// The places of windows over the rows of a series (data.window). Pure.
//
//   rows     0 1 2 3 4 5 6 7 8
//   window 0 [input ] . t           length 4, horizon 2, one target row
//   window 1   . [input ] . t       stride 2 would begin at row 2
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/job_limits.h"
#include "engine/base/refuse.h"

namespace gpupool::engine {

struct RowWindows {
  uint64_t length = 1;       // rows of an input
  uint64_t stride = 1;       // rows between the beginnings of two windows
  uint64_t horizon = 1;      // from an input's last row to a target's first one
  uint64_t target_rows = 1;  // rows of a target
  // Replaces the horizon: rows from an input's first row to a target's first
  // one, at most `length`.
  std::optional<uint64_t> target_from = std::nullopt;

  // Returns the rows from a window's first one to its target's first one.
  uint64_t target_begin() const {
    return target_from.value_or(length - 1 + horizon);
  }
  // Returns the rows from a window's first one to its last one.
  uint64_t span() const { return target_begin() + target_rows; }
  // Returns the number of windows over a series.
  uint64_t CountIn(uint64_t rows) const {
    return rows < span() ? 0 : (rows - span()) / stride + 1;
  }
  // Returns the rows of the shortest series that has this number of windows.
  // The numbers must be within their limits and `windows` below 2^32.
  uint64_t RowsFor(uint64_t windows) const {
    return windows == 0 ? 0 : span() + (windows - 1) * stride;
  }
  // Returns how many windows before a window share a row with it.
  uint64_t overlapping() const { return (span() - 1) / stride; }
};

// Returns whether the target has a row for each row of the input.
template <typename Window>
bool HasTargetOfEachRow(const Window& window) {
  return window.targets() == Window::NEXT_OF_EACH ||
         window.targets() == Window::SAME;
}

// Checks the numbers of data.window. INVALID_ARGUMENT names the field, the
// value and the limit. `Window` is the message, which this library does not
// know.
template <typename Window>
absl::Status CheckWindowRows(const Window& window) {
  if (window.length() == 0) {
    return Refuse("data.window.length is 0; it must be 1 .. ", kMaxWindowRows);
  }
  for (const auto& [field, rows] :
       {std::pair("length", window.length()),
        std::pair("stride", window.stride()),
        std::pair("horizon", window.horizon()),
        std::pair("target_rows", window.target_rows())}) {
    if (rows <= kMaxWindowRows) continue;
    return Refuse("data.window.", field, " is ", rows, "; at most ",
                  kMaxWindowRows, " rows are allowed");
  }
  if (!Window::Targets_IsValid(window.targets())) {
    return Refuse("data.window.targets has the unknown value ",
                  static_cast<int>(window.targets()),
                  "; write after, next_of_each or same");
  }
  const bool placed = window.has_horizon() || window.target_rows() != 0;
  if (HasTargetOfEachRow(window) && placed) {
    return Refuse("data.window.targets is ",
                  Window::Targets_Name(window.targets()),
                  ", which gives targets their place; leave horizon and "
                  "target_rows out");
  }
  return absl::OkStatus();
}

// Returns the windows of data.window, with the defaults of fields that are not
// set.
template <typename Window>
RowWindows RowWindowsOf(const Window& window) {
  const uint64_t stride = std::max<uint64_t>(window.stride(), 1);
  if (HasTargetOfEachRow(window)) {
    const bool next = window.targets() == Window::NEXT_OF_EACH;
    return {.length = window.length(),
            .stride = stride,
            .target_rows = window.length(),
            .target_from = next ? 1 : 0};
  }
  return {.length = window.length(),
          .stride = stride,
          .horizon = window.has_horizon() ? window.horizon() : uint64_t{1},
          .target_rows = std::max<uint64_t>(window.target_rows(), 1)};
}

}  // namespace gpupool::engine
