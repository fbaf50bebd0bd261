#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "engine/base/align.h"
#include "engine/base/philox.h"

namespace gpupool::engine {
namespace {

using Order = std::vector<size_t>;

// Comparisons of two items over all attempts: some tens of milliseconds.
constexpr uint64_t kMaxComparisons = uint64_t{1} << 22;
constexpr int kMaxRepairs = 64;
// An arena that is larger than the lower bound by at most one part in so many
// is not worth more time.
constexpr uint64_t kGoodEnough = 200;

enum class Gap : uint8_t { kLowest, kTightest };

struct Placed {
  uint64_t begin;
  uint64_t end;
  Lifetime lifetime;
};

// `placed` is in rising order of begin.
uint64_t FindGap(const std::vector<Placed>& placed, uint64_t bytes,
                 const Lifetime& lifetime, Gap gap) {
  uint64_t offset = 0;
  uint64_t best = 0;
  uint64_t best_slack = std::numeric_limits<uint64_t>::max();
  for (const Placed& other : placed) {
    if (!other.lifetime.Overlaps(lifetime)) continue;
    if (other.begin >= offset + bytes) {
      if (gap == Gap::kLowest) return offset;
      const uint64_t slack = other.begin - offset - bytes;
      if (slack < best_slack) {
        best = offset;
        best_slack = slack;
      }
    }
    offset = std::max(offset, other.end);
  }
  return best_slack == std::numeric_limits<uint64_t>::max() ? offset : best;
}

class Planner {
 public:
  explicit Planner(absl::Span<const PlanItem> items)
      : items_(items), lower_bound_(FindPeak(items).bytes) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].bytes > 0) by_size_.push_back(i);
    }
    Sort(by_size_, [this](size_t i) { return Bytes(i); });
  }

  MemoryPlan Run() {
    best_.arena_bytes = std::numeric_limits<uint64_t>::max();
    best_.offsets.assign(items_.size(), 0);
    if (by_size_.empty()) best_.arena_bytes = 0;
    Order best_order = by_size_;
    for (const auto& [order, gap] : Attempts()) {
      if (Try(order, gap)) best_order = order;
    }
    for (int i = 0; i < kMaxRepairs && WorthTrying(); ++i) {
      Order order = best_order;
      Promote(order);
      if (Try(order, i % 4 == 3 ? Gap::kTightest : Gap::kLowest)) {
        best_order = std::move(order);
      }
    }
    return std::move(best_);
  }

 private:
  uint64_t Bytes(size_t i) const { return AlignUp(items_[i].bytes); }
  uint64_t Length(size_t i) const {
    return static_cast<uint64_t>(items_[i].lifetime.last) -
           static_cast<uint64_t>(items_[i].lifetime.first) + 1;
  }

  // Falling by `weight`; equal ones keep their order.
  template <typename Weight>
  static void Sort(Order& order, Weight weight) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return weight(a) > weight(b); });
  }

  std::vector<std::pair<Order, Gap>> Attempts() const {
    Order by_length = by_size_;
    Sort(by_length, [this](size_t i) { return Length(i); });
    Order by_area = by_size_;
    Sort(by_area, [this](size_t i) {
      return static_cast<double>(Bytes(i)) * static_cast<double>(Length(i));
    });
    Order by_begin = by_size_;
    Sort(by_begin, [this](size_t i) { return -items_[i].lifetime.first; });
    Order by_end = by_size_;
    Sort(by_end, [this](size_t i) { return items_[i].lifetime.last; });
    return {{by_size_, Gap::kLowest}, {by_size_, Gap::kTightest},
            {by_area, Gap::kLowest},  {by_length, Gap::kLowest},
            {by_begin, Gap::kLowest}, {by_begin, Gap::kTightest},
            {by_end, Gap::kTightest}};
  }

  bool WorthTrying() const {
    return best_.arena_bytes > lower_bound_ + lower_bound_ / kGoodEnough &&
           (comparisons_ == 0 || comparisons_ < kMaxComparisons);
  }

  // Whether no arena so far was smaller; it is then kept.
  bool Try(const Order& order, Gap gap) {
    if (!WorthTrying()) return false;
    MemoryPlan plan;
    plan.offsets.assign(items_.size(), 0);
    std::vector<Placed> placed;
    placed.reserve(order.size());
    for (const size_t i : order) {
      const uint64_t bytes = Bytes(i);
      comparisons_ += placed.size() + 1;
      const uint64_t offset = FindGap(placed, bytes, items_[i].lifetime, gap);
      plan.offsets[i] = offset;
      plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
      const auto at = std::upper_bound(
          placed.begin(), placed.end(), offset,
          [](uint64_t begin, const Placed& p) { return begin < p.begin; });
      placed.insert(at, {offset, offset + bytes, items_[i].lifetime});
    }
    if (plan.arena_bytes > best_.arena_bytes) return false;
    best_ = std::move(plan);
    top_ = TopItem(best_);
    return true;
  }

  // The first item that ends where the arena ends.
  size_t TopItem(const MemoryPlan& plan) const {
    for (const size_t i : by_size_) {
      if (plan.offsets[i] + Bytes(i) == plan.arena_bytes) return i;
    }
    return by_size_[0];
  }

  // Moves the item that makes the best arena as large as it is somewhere
  // nearer to the front, or any item where it stands there.
  void Promote(Order& order) {
    auto at = std::find(order.begin(), order.end(), top_);
    if (at == order.begin() || random_.NextBelow(4) == 0) {
      at = order.begin() +
           static_cast<std::ptrdiff_t>(random_.NextBelow(order.size()));
    }
    const auto steps = static_cast<uint64_t>(at - order.begin()) + 1;
    const auto to =
        order.begin() + static_cast<std::ptrdiff_t>(random_.NextBelow(steps));
    std::rotate(to, at, at + 1);
  }

  absl::Span<const PlanItem> items_;
  const uint64_t lower_bound_;
  Order by_size_;
  MemoryPlan best_;
  size_t top_ = 0;
  uint64_t comparisons_ = 0;
  Philox random_{0};  // the same items give the same plan
};

}  // namespace

MemoryPlan PlanMemory(absl::Span<const PlanItem> items) {
  return Planner(items).Run();
}

PeakMoment FindPeak(absl::Span<const PlanItem> items) {
  std::map<int, int64_t> changes;
  for (const PlanItem& item : items) {
    const auto bytes = static_cast<int64_t>(AlignUp(item.bytes));
    changes[item.lifetime.first] += bytes;
    changes[item.lifetime.last + 1] -= bytes;
  }
  PeakMoment peak;
  int64_t live = 0;
  for (const auto& [position, change] : changes) {
    live += change;
    if (static_cast<uint64_t>(live) > peak.bytes) {
      peak = {position, static_cast<uint64_t>(live)};
    }
  }
  return peak;
}

}  // namespace gpupool::engine
