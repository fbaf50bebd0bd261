// Ranges of host memory that were registered with a device: see
// Transfer::Register.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <map>

#include "absl/types/span.h"

namespace gpupool::engine {

class HostRanges {
 public:
  // Adds a range. Returns false, and adds nothing, when it is empty or overlaps
  // another.
  bool Add(absl::Span<const std::byte> range) {
    if (range.empty()) return false;
    const std::byte* const end = range.data() + range.size();
    const auto after = ends_.lower_bound(end);
    if (after != ends_.end() && after->first < end) return false;
    if (after != ends_.begin() && std::prev(after)->second > range.data()) {
      return false;
    }
    ends_[range.data()] = end;
    return true;
  }
  // Removes a range that was added.
  void Remove(absl::Span<const std::byte> range) { ends_.erase(range.data()); }
  // Returns whether a single range holds all of `part`, which must not be
  // empty.
  bool Hold(absl::Span<const std::byte> part) const {
    const auto after = ends_.upper_bound(part.data());
    return after != ends_.begin() && !part.empty() &&
           part.data() + part.size() <= std::prev(after)->second;
  }
  size_t size() const { return ends_.size(); }

 private:
  std::map<const std::byte*, const std::byte*, std::less<>> ends_;  // by begin
};

}  // namespace gpupool::engine
