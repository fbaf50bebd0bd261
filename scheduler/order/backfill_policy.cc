#include "scheduler/order/backfill_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "scheduler/place/free_devices.h"

namespace gpupool::scheduler {
namespace {

// Returns the least run time of the shape's jobs (Shape::length).
absl::Duration ShortestOf(const Shape& shape) {
  if (shape.length == 0) return absl::InfiniteDuration();  // nobody knows
  return shape.length == 1 ? absl::ZeroDuration()
                           : absl::Seconds(std::ldexp(1.0, shape.length - 1));
}

// Chooses the job that may start next to the reservation of the first waiting
// job.
class Backfill {
 public:
  explicit Backfill(const QueueTurn& turn)
      : turn_(turn),
        state_(turn.state),
        queue_(turn.queue),
        now_(turn.now),
        held_(turn.held) {}

  QueueChoice Choose() {
    for (const Job* job : CandidatesOf(state_, queue_)) {
      // Candidates come in order, so that no later one can be better.
      if (best_ && KeyOf(*best_) < KeyOf(*job)) break;
      if (job->reserved_devices.empty() && !MightStart(*job)) {
        if (first_ == nullptr && CouldEverStart(*job)) Reserve(*job);
        continue;
      }
      Consider(*job);
      if (best_ && first_ == nullptr) break;
    }
    QueueChoice choice;
    if (first_ != nullptr && !reservation_) {
      choice.waiting.push_back(first_->id);
      choice.kept = first_->held_devices;
    }
    if (reservation_) choice.kept = reservation_->devices;
    if (best_) {
      choice.start = {best_->id, std::move(devices_), choice.waiting};
    }
    return choice;
  }

 private:
  // Where a need finds room now, anywhere and outside the reservation. Shapes
  // that differ only by length share one.
  struct Places {
    Need need;
    Placement anywhere;
    std::optional<Placement> beside;
  };

  // Keeps the job if it may start now; reserves devices if it is the first that
  // must wait.
  void Consider(const Job& job) {
    Places& places = PlacesFor(NeedOf(state_, job));
    if (places.anywhere.fit == Fit::kNever) return;
    if (places.anywhere.fit == Fit::kNotNow) {
      if (first_ == nullptr) Reserve(job);
      return;
    }
    if (!reservation_ || !IsInTheWay(places.anywhere.devices)) {
      Keep(job, places.anywhere.devices);
      return;
    }
    // All jobs of the shape fit where this one does. So the first of them that
    // ends before the reservation may start in its place.
    if (const Job* brief = FirstThatEndsInTime(job)) {
      Keep(*brief, places.anywhere.devices);
    }
    if (!places.beside) {
      places.beside = Place(state_, places.need, excluded_);
    }
    if (places.beside->fit == Fit::kNow) Keep(job, places.beside->devices);
  }

  // Tells quickly whether a job behind the first may start at all.
  bool MightStart(const Job& job) {
    const Need need = NeedOf(state_, job);
    if (!turn_.free.MayHold(need)) return false;
    return !beside_ || beside_->MayHold(need) || FirstThatEndsInTime(job);
  }

  // Returns whether the job would fit in an empty pool.
  bool CouldEverStart(const Job& job) {
    return turn_.free.MayEverHold(NeedOf(state_, job));
  }

  Places& PlacesFor(const Need& need) {
    for (Places& known : places_) {
      if (known.need.bytes == need.bytes &&
          known.need.devices == need.devices &&
          known.need.demands == need.demands &&
          known.need.wanted_device == need.wanted_device &&
          known.need.visitor == need.visitor) {
        return known;
      }
    }
    return places_.emplace_back(Places{need, Place(state_, need, held_), {}});
  }

  // Reserves devices for the first job that waits. Without run times only the
  // devices that it holds by its passes are excluded.
  void Reserve(const Job& job) {
    first_ = &job;
    reservation_ = turn_.rooms.Find(state_, NeedOf(state_, job), now_, held_);
    if (reservation_) {
      absl::btree_set<DeviceId> excluded = held_;
      excluded.insert(reservation_->devices.begin(),
                      reservation_->devices.end());
      beside_.emplace(turn_.free.Without(reservation_->devices));
      excluded_ = std::move(excluded);
      return;
    }
    held_.insert(job.held_devices.begin(), job.held_devices.end());
    // The known places were made with fewer excluded devices.
    places_.clear();
  }

  bool IsInTheWay(const std::vector<DeviceId>& devices) const {
    return std::any_of(devices.begin(), devices.end(), [&](DeviceId id) {
      return reservation_->devices.contains(id);
    });
  }

  const Job* FirstThatEndsInTime(const Job& of_the_shape) const {
    const Shape shape = state_.ShapeOf(of_the_shape);
    if (now_ + ShortestOf(shape) > reservation_->at) return nullptr;
    size_t looked = 0;
    for (const QueueKey& key : state_.waiting().shapes().at(shape)) {
      if (++looked > kMaxBackfill || (best_ && KeyOf(*best_) < key)) break;
      const Job& job = state_.jobs().at(key.job);
      if (ExpectedEnd(job, now_) > reservation_->at) continue;
      if (state_.StrayDevice(job.id) == nullptr) return &job;
    }
    return nullptr;
  }

  void Keep(const Job& job, const std::vector<DeviceId>& devices) {
    if (best_ != nullptr && KeyOf(*best_) < KeyOf(job)) return;
    best_ = &job;
    devices_ = devices;
  }

  const QueueTurn& turn_;
  const State& state_;
  const uint32_t queue_;
  const absl::Time now_;
  absl::btree_set<DeviceId> held_;
  std::optional<FreeDevices> beside_;  // outside held_ and the reservation
  absl::btree_set<DeviceId> excluded_;
  std::vector<Places> places_;
  const Job* first_ = nullptr;  // the first waiting job
  std::optional<Reservation> reservation_;
  const Job* best_ = nullptr;  // the job that may start
  std::vector<DeviceId> devices_;
};

}  // namespace

QueueChoice ChooseBackfill(const QueueTurn& turn) {
  return Backfill(turn).Choose();
}

}  // namespace gpupool::scheduler
