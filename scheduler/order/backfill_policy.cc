#include "scheduler/order/backfill_policy.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "scheduler/place/free_devices.h"
#include "scheduler/place/obstacle.h"

namespace gpupool::scheduler {
namespace {

// Returns when enough of the device will be free; InfiniteFuture when nobody
// knows. Lets the jobs leave in the order of their expected ends until the need
// fits.
absl::Time FreeAt(const State& state, const Device& device, const Need& need,
                  absl::Time now) {
  Meanwhile emptied = WhenEmptied(device);
  emptied.promise_kept = false;
  if (ObstacleFor(state, device, need, emptied)) return absl::InfiniteFuture();
  absl::InlinedVector<std::pair<absl::Time, const Job*>, 8> ends;
  for (JobId id : device.jobs) {
    const Job& job = state.jobs().at(id);
    ends.emplace_back(ExpectedEnd(job, now), &job);
  }
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->id) < std::tie(b.first, b.second->id);
  });
  absl::Time at = std::max(now, device.cools_until);
  Meanwhile until = WhenSettled(device);
  until.cooled = true;
  const uint64_t needed = NeededOn(need, device);
  for (const auto& [end, job] : ends) {
    // Cheap test first: without the bytes there is no need to ask for
    // obstacles.
    const bool has_bytes = device.free_bytes(until.returned_bytes) >= needed;
    if (has_bytes && !ObstacleFor(state, device, need, until)) break;
    at = std::max(at, end);
    until.Leave(*job, device);
  }
  return at;
}

struct SiteRoom {
  absl::string_view kind;
  // By time of becoming free.
  std::vector<std::pair<absl::Time, DeviceId>> free;
  size_t devices = 0;
  // Returns when `count` of its devices are free.
  absl::Time At(size_t count) const {
    return count <= free.size() ? free[count - 1].first
                                : absl::InfiniteFuture();
  }
};

void Take(const SiteRoom& site, size_t count, Reservation& reservation) {
  for (size_t i = 0; i < count && i < site.free.size(); ++i) {
    reservation.devices.insert(site.free[i].second);
    reservation.at = std::max(reservation.at, site.free[i].first);
  }
}

// Reserves devices of the machine that has enough of them first.
std::optional<Reservation> OnOneSite(const std::vector<SiteRoom>& sites,
                                     size_t count) {
  const SiteRoom* best = nullptr;
  for (const SiteRoom& site : sites) {
    if (best == nullptr || site.At(count) < best->At(count)) best = &site;
  }
  if (best == nullptr || best->At(count) == absl::InfiniteFuture()) {
    return std::nullopt;
  }
  Reservation reservation{.at = absl::InfinitePast()};
  Take(*best, count, reservation);
  return reservation;
}

// Reserves whole machines of one kind, those that become free first.
std::optional<Reservation> OnWholeSites(std::vector<SiteRoom> sites,
                                        size_t count) {
  std::stable_sort(sites.begin(), sites.end(),
                   [](const SiteRoom& a, const SiteRoom& b) {
                     return a.At(a.devices) < b.At(b.devices);
                   });
  std::optional<Reservation> best;
  for (const SiteRoom& first : sites) {
    Reservation reservation{.at = absl::InfinitePast()};
    for (const SiteRoom& site : sites) {
      if (site.kind != first.kind || site.free.empty()) continue;
      if (site.At(site.devices) == absl::InfiniteFuture()) continue;
      if (reservation.devices.size() >= count) break;
      Take(site, std::min(site.devices, count - reservation.devices.size()),
           reservation);
    }
    if (reservation.devices.size() < count) continue;
    if (!best || reservation.at < best->at) best = std::move(reservation);
  }
  return best;
}

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
  Backfill(const State& state, uint32_t queue,
           const absl::btree_set<DeviceId>& held, absl::Time now)
      : state_(state), queue_(queue), now_(now), held_(held) {}

  QueueChoice Choose() {
    const Queues::Entry* entry = &state_.queues().at(queue_);
    free_.emplace(state_, held_, entry);
    for (const Job* job : CandidatesOf(state_, queue_)) {
      // Candidates come in order, so that no later one can be better.
      if (best_ && KeyOf(*best_) < KeyOf(*job)) break;
      // Only Place can tell whether the first waiting job never fits, so the
      // quick test is for the jobs behind it.
      if (first_ != nullptr && job->reserved_devices.empty() &&
          !MightStart(*job)) {
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
    if (!free_->MayHold(need)) return false;
    return !beside_ || beside_->MayHold(need) || FirstThatEndsInTime(job);
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
    reservation_ = EarliestRoom(state_, NeedOf(state_, job), now_, held_);
    if (reservation_) {
      absl::btree_set<DeviceId> excluded = held_;
      excluded.insert(reservation_->devices.begin(),
                      reservation_->devices.end());
      beside_.emplace(state_, excluded, &state_.queues().at(queue_));
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

  const State& state_;
  const uint32_t queue_;
  const absl::Time now_;
  absl::btree_set<DeviceId> held_;
  std::optional<FreeDevices> free_;    // outside held_
  std::optional<FreeDevices> beside_;  // also outside the reservation
  absl::btree_set<DeviceId> excluded_;
  std::vector<Places> places_;
  const Job* first_ = nullptr;  // the first waiting job
  std::optional<Reservation> reservation_;
  const Job* best_ = nullptr;  // the job that may start
  std::vector<DeviceId> devices_;
};

}  // namespace

absl::Time ExpectedEnd(const Job& job, absl::Time now) {
  if (!job.expected_run) return absl::InfiniteFuture();
  return std::max(now, now + (*job.expected_run - job.Attained(now)));
}

std::optional<Reservation> EarliestRoom(
    const State& state, const Need& need, absl::Time now,
    const absl::btree_set<DeviceId>& excluded) {
  if (need.devices == 0) return std::nullopt;
  std::vector<SiteRoom> sites(state.sites());
  size_t largest = 0;
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, need)) continue;
    SiteRoom& site = sites[device.site];
    site.kind = device.kind;
    largest = std::max(largest, ++site.devices);
    if (excluded.contains(id)) continue;
    const absl::Time at = FreeAt(state, device, need, now);
    if (at != absl::InfiniteFuture()) site.free.emplace_back(at, id);
  }
  for (SiteRoom& site : sites) std::sort(site.free.begin(), site.free.end());
  return need.devices <= largest ? OnOneSite(sites, need.devices)
                                 : OnWholeSites(std::move(sites), need.devices);
}

QueueChoice ChooseBackfill(const State& state, uint32_t queue,
                           const absl::btree_set<DeviceId>& held,
                           absl::Time now) {
  return Backfill(state, queue, held, now).Choose();
}

}  // namespace gpupool::scheduler
