#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/base/align.h"
#include "engine/base/philox.h"

namespace gpupool::engine {
namespace {

// The limit of comparisons of two items in all attempts: some tens of
// milliseconds.
constexpr uint64_t kMaxComparisons = uint64_t{1} << 22;
constexpr int kMaxRepairs = 2048;
// The attempts end when the arena exceeds the lower bound by at most one part
// in this many.
constexpr uint64_t kGoodEnough = 200;

// The gap that an item takes, of those that are large enough. kHighest is the
// top of the highest gap below the lower bound.
enum class Gap : uint8_t { kLowest, kTightest, kHighest };

struct Turn {
  size_t item;
  Gap gap = Gap::kLowest;
};
using Order = std::vector<Turn>;

struct Placed {
  uint64_t begin;
  uint64_t end;
  Lifetime lifetime;
};

// Returns the offset for the item. `placed` must be in rising order of `begin`.
// kHighest puts nothing above `ceiling`.
uint64_t FindGap(const std::vector<Placed>& placed, const PlanItem& item,
                 Gap gap, uint64_t ceiling) {
  const uint64_t bytes = AlignUp(item.bytes);
  uint64_t offset = 0;  // the beginning of the current gap
  std::optional<uint64_t> best;
  uint64_t best_slack = std::numeric_limits<uint64_t>::max();
  for (const Placed& other : placed) {
    if (!other.lifetime.Overlaps(item.lifetime)) continue;
    if (other.begin >= offset + bytes) {
      if (gap == Gap::kLowest) return offset;
      const uint64_t slack = other.begin - offset - bytes;
      if (gap == Gap::kHighest) {
        best = offset + slack;
      } else if (slack < best_slack) {
        best = offset;
        best_slack = slack;
      }
    }
    offset = std::max(offset, other.end);
  }
  if (gap == Gap::kHighest && offset + bytes <= ceiling) return ceiling - bytes;
  return best.value_or(offset);
}

class Planner {
 public:
  explicit Planner(absl::Span<const PlanItem> items)
      : items_(items), lower_bound_(FindPeak(items).bytes) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].bytes > 0) by_size_.push_back({i});
    }
    Sort(by_size_, [this](size_t i) { return Bytes(i); });
  }

  MemoryPlan Run() {
    best_.arena_bytes = std::numeric_limits<uint64_t>::max();
    best_.offsets.assign(items_.size(), 0);
    if (by_size_.empty()) best_.arena_bytes = 0;
    Order best_order = by_size_;
    for (Order& order : Attempts()) {
      if (Try(order)) best_order = std::move(order);
    }
    for (int i = 0; i < kMaxRepairs && WorthTrying(); ++i) {
      Order order = best_order;
      Promote(order);
      if (i % 4 == 0) Redirect(order);
      if (Try(order)) best_order = std::move(order);
    }
    return std::move(best_);
  }

 private:
  uint64_t Bytes(size_t i) const { return AlignUp(items_[i].bytes); }
  uint64_t Length(size_t i) const {
    return static_cast<uint64_t>(items_[i].lifetime.last) -
           static_cast<uint64_t>(items_[i].lifetime.first) + 1;
  }

  // Sorts by falling `weight`; equal ones keep their order.
  template <typename Weight>
  static void Sort(Order& order, Weight weight) {
    std::stable_sort(order.begin(), order.end(),
                     [&](const Turn& a, const Turn& b) {
                       return weight(a.item) > weight(b.item);
                     });
  }

  std::vector<Order> Attempts() const {
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
    return {With(by_size_, Gap::kLowest), With(by_size_, Gap::kTightest),
            With(by_area, Gap::kLowest),  With(by_length, Gap::kLowest),
            With(by_begin, Gap::kLowest), With(by_begin, Gap::kTightest),
            With(by_end, Gap::kTightest), With(by_length, Gap::kHighest)};
  }

  static Order With(Order order, Gap gap) {
    for (Turn& turn : order) turn.gap = gap;
    return order;
  }

  // Returns whether another attempt is worth its time. The first always runs.
  bool WorthTrying() const {
    return best_.arena_bytes > lower_bound_ + lower_bound_ / kGoodEnough &&
           (comparisons_ == 0 || comparisons_ < kMaxComparisons);
  }

  // Plans in this order. Keeps the plan and returns true when no earlier arena
  // was smaller.
  bool Try(const Order& order) {
    if (!WorthTrying()) return false;
    MemoryPlan plan;
    plan.offsets.assign(items_.size(), 0);
    std::vector<Placed> placed;
    placed.reserve(order.size());
    for (const auto& [i, gap] : order) {
      const uint64_t bytes = Bytes(i);
      comparisons_ += placed.size() + 1;
      const uint64_t offset = FindGap(placed, items_[i], gap, lower_bound_);
      plan.offsets[i] = offset;
      plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
      const auto at = std::upper_bound(
          placed.begin(), placed.end(), offset,
          [](uint64_t begin, const Placed& p) { return begin < p.begin; });
      placed.insert(at, {offset, offset + bytes, items_[i].lifetime});
    }
    // An equal arena counts as progress, so the search can cross plateaus.
    if (plan.arena_bytes > best_.arena_bytes) return false;
    best_ = std::move(plan);
    top_ = TopItem(best_);
    return true;
  }

  // Returns the first item that ends where the arena ends.
  size_t TopItem(const MemoryPlan& plan) const {
    for (const auto& [i, gap] : by_size_) {
      if (plan.offsets[i] + Bytes(i) == plan.arena_bytes) return i;
    }
    return by_size_[0].item;
  }

  // Moves the item at the top of the best arena to a random earlier turn. Moves
  // a random item if that one is already first, and in one of four cases.
  void Promote(Order& order) {
    auto at =
        std::find_if(order.begin(), order.end(),
                     [this](const auto& turn) { return turn.item == top_; });
    if (at == order.begin() || random_.NextBelow(4) == 0) {
      at = order.begin() +
           static_cast<std::ptrdiff_t>(random_.NextBelow(order.size()));
    }
    const auto steps = static_cast<uint64_t>(at - order.begin()) + 1;
    const auto to =
        order.begin() + static_cast<std::ptrdiff_t>(random_.NextBelow(steps));
    std::rotate(to, at, at + 1);
  }

  // Changes the gap of up to two items.
  void Redirect(Order& order) {
    for (uint64_t count = random_.NextBelow(3); count > 0; --count) {
      order[random_.NextBelow(order.size())].gap =
          static_cast<Gap>(random_.NextBelow(3));
    }
  }

  absl::Span<const PlanItem> items_;
  const uint64_t lower_bound_;
  Order by_size_;
  MemoryPlan best_;
  size_t top_ = 0;
  uint64_t comparisons_ = 0;
  Philox random_{0};  // fixed seed: the same items give the same plan
};

}  // namespace

MemoryPlan PlanMemory(absl::Span<const PlanItem> items) {
  return Planner(items).Run();
}

PeakMoment FindPeak(absl::Span<const PlanItem> items) {
  // Live bytes change at beginnings and after ends only.
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
