// Searches the largest batch size whose planned bytes are within a limit, with
// few plans. Bytes are nearly affine in the batch size: what depends on it is
// proportional, with small steps where kernels change their scratch.
//
// Thread-safety: a value; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace gpupool::server {

struct BatchRange {
  uint64_t limit_bytes = 0;
  uint64_t fixed_bytes = 0;  // of weights and optimizer, for any batch size
  uint64_t quantum = 1;      // batch sizes are multiples of this; >= 1
  uint64_t most = 0;         // the largest that may be asked for
};

class BatchSearch {
 public:
  // The most plans that one search asks for.
  static constexpr int kMostPlans = 5;

  explicit BatchSearch(const BatchRange& range) : range_(range) {}

  // Adds a planned batch size, of this search or of another one. Nothing as
  // `peak` means that the size was refused, whatever the reason. It may still
  // fit, but larger sizes are not asked for. A second call for the same size is
  // a no-op.
  void Add(uint64_t batch, std::optional<uint64_t> peak);

  // Returns the batch size to plan next, which has not been added. Returns
  // nothing when the answer is known or kMostPlans have been returned.
  std::optional<uint64_t> Next();

  // Returns the largest size that was added and fits; 0 when there is none.
  uint64_t largest() const { return fits_.empty() ? 0 : fits_.rbegin()->first; }
  // Returns the peak of largest(); 0 when there is none.
  uint64_t largest_peak() const {
    return fits_.empty() ? 0 : fits_.rbegin()->second;
  }
  // Returns the smallest size above largest() that was planned and does not
  // fit. Nothing when none is known.
  std::optional<uint64_t> too_large() const;

 private:
  // Returns the size at which a line through the nearest plans meets the limit.
  double Guess() const;
  // Returns the smallest refused size above largest().
  std::optional<uint64_t> refused() const;

  const BatchRange range_;
  std::map<uint64_t, uint64_t> fits_;       // peak by size
  std::map<uint64_t, uint64_t> too_large_;  // the same
  std::set<uint64_t> refused_;
  int plans_ = 0;
};

}  // namespace gpupool::server
