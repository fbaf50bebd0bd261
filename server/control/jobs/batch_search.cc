#include "server/control/jobs/batch_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace gpupool::server {
namespace {

// A size with its planned bytes.
struct Point {
  double batch = 0;
  double peak = 0;
};

}  // namespace

void BatchSearch::Add(uint64_t batch, std::optional<uint64_t> peak) {
  if (!peak.has_value()) {
    refused_.insert(batch);
  } else if (*peak <= range_.limit_bytes) {
    fits_.emplace(batch, *peak);
  } else {
    too_large_.emplace(batch, *peak);
  }
}

std::optional<uint64_t> BatchSearch::too_large() const {
  // A size that fits may be above one that does not, by a step of the scratch.
  const auto found = too_large_.upper_bound(largest());
  if (found == too_large_.end()) return std::nullopt;
  return found->first;
}

std::optional<uint64_t> BatchSearch::refused() const {
  const auto found = refused_.upper_bound(largest());
  if (found == refused_.end()) return std::nullopt;
  return *found;
}

double BatchSearch::Guess() const {
  const Point low = {static_cast<double>(largest()),
                     fits_.empty() ? static_cast<double>(range_.fixed_bytes)
                                   : static_cast<double>(largest_peak())};
  Point other = {0, static_cast<double>(range_.fixed_bytes)};
  const auto above = too_large_.upper_bound(largest());
  if (above != too_large_.end()) {
    other = {static_cast<double>(above->first),
             static_cast<double>(above->second)};
  } else if (fits_.size() > 1) {
    const auto before = std::next(fits_.rbegin());
    other = {static_cast<double>(before->first),
             static_cast<double>(before->second)};
  }
  const double slope = (other.peak - low.peak) / (other.batch - low.batch);
  if (!std::isfinite(slope) || slope <= 0) return 2 * low.batch;
  return low.batch +
         (static_cast<double>(range_.limit_bytes) - low.peak) / slope;
}

std::optional<uint64_t> BatchSearch::Next() {
  if (plans_ == kMostPlans) return std::nullopt;
  const uint64_t quantum = range_.quantum;
  const uint64_t least = largest() + quantum;
  uint64_t most = range_.most;
  if (const auto above = too_large()) most = std::min(most, *above - 1);
  double guess = Guess();
  if (const auto above = refused()) {
    most = std::min(most, *above - 1);
    // Bytes do not tell from which size on plans are refused.
    if (guess >= static_cast<double>(*above)) {
      guess = static_cast<double>(largest() + *above) / 2;
    }
  }
  most -= most % quantum;
  if (least > most) return std::nullopt;
  guess =
      std::clamp(guess, static_cast<double>(least), static_cast<double>(most));
  uint64_t batch = static_cast<uint64_t>(guess);
  batch = std::clamp(batch - batch % quantum, least, most);
  ++plans_;
  return batch;
}

}  // namespace gpupool::server
