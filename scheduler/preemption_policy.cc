#include "scheduler/preemption_policy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/btree_map.h"
#include "scheduler/order_policy.h"
#include "scheduler/queue_policy.h"
#include "scheduler/tenant_order.h"

namespace gpupool::scheduler {
namespace {

// How far behind a running job is: the larger one gives way first.
struct Behind {
  int64_t priority = std::numeric_limits<int64_t>::max();  // negated
  double standing = std::numeric_limits<double>::infinity();
  friend auto operator<=>(const Behind&, const Behind&) = default;
};

bool Stopping(const Job& job) {
  return job.stop_sent.has_value() || job.interruption.has_value() ||
         job.state == JobState::kCancelling;
}

}  // namespace

// What it takes to make one device free enough.
struct DeviceOption {
  const Device* device = nullptr;
  absl::InlinedVector<JobId, 2> gives_way;
  absl::InlinedVector<JobId, 2> moves;
  Behind behind;         // of the job of `gives_way` that is least behind
  uint32_t devices = 0;  // that those jobs hold in all
};

namespace {

struct SiteOptions {
  absl::string_view kind;
  uint32_t devices = 0;
  uint32_t may_open = 0;            // of those, at most
  uint32_t may_move = 0;            // of the others, at most
  std::vector<DeviceOption> open;   // free, or free when others give way
  std::vector<DeviceOption> moved;  // free when others move
};

// Furthest behind first.
bool IsBetter(const DeviceOption& a, const DeviceOption& b) {
  if (a.behind != b.behind) return a.behind > b.behind;
  if (a.devices != b.devices) return a.devices < b.devices;
  return a.device->id < b.device->id;
}

struct Score {
  Behind behind;
  uint32_t devices = 0;
  void Add(const DeviceOption& option) {
    behind = std::min(behind, option.behind);
    devices += option.devices;
  }
  bool IsBetterThan(const Score& other) const {
    if (behind != other.behind) return behind > other.behind;
    return devices < other.devices;
  }
};

Room RoomOf(const std::vector<const DeviceOption*>& chosen) {
  Room room;
  absl::btree_map<JobId, StopReason> stops;
  for (const DeviceOption* option : chosen) {
    room.devices.push_back(option->device->id);
    for (JobId id : option->moves) stops.emplace(id, StopReason::kMoved);
    for (JobId id : option->gives_way) {
      stops.emplace(id, StopReason::kPreempted);
    }
  }
  std::sort(room.devices.begin(), room.devices.end());
  for (const auto& [id, reason] : stops) room.stops.push_back({id, reason});
  return room;
}

}  // namespace

RunningJobs::RunningJobs(const State& state, absl::Time now) : state_(state) {
  const QueuePolicy& policy = state.policy();
  const absl::Duration before_a_move =
      state.restart_cost() * kMoveAfterRestarts;
  spots_.reserve(state.devices().size() + 1);
  running_.reserve(state.devices().size());
  const Job* last = nullptr;  // mostly the next device runs it too
  const bool reclaims = HasGuarantees(policy.tenants);
  absl::btree_set<JobId> guaranteed;
  if (reclaims) guaranteed = GuaranteedJobs(state);
  for (const auto& [id, device] : state.devices()) {
    spots_.push_back({.device = &device,
                      .first = running_.size(),
                      .free_bytes = device.free_bytes(),
                      .site = device.site,
                      .ready = device.ready});
    for (JobId job_id : device.jobs) {
      if (last == nullptr || last->id != job_id) {
        last = &state.jobs().at(job_id);
      }
      const Job& job = *last;
      Running& running =
          running_.emplace_back(Running{.job = &job, .priority = job.priority});
      running.stops = Stopping(job);
      Spot& spot = spots_.back();
      spot.stops = spot.stops || running.stops;
      if (running.stops || job.state != JobState::kRunning) continue;
      const absl::Duration run = now - job.run_since;
      if (run < policy.min_run) continue;
      running.standing = KeptStandingOf(policy, job, now);
      running.can_give_way = true;
      running.may_move = policy.order_preempts() && run >= before_a_move;
      running.is_borrowed = reclaims && !guaranteed.contains(job_id);
      any_borrowed_ = any_borrowed_ || running.is_borrowed;
      lowest_priority_ = std::min(lowest_priority_, job.priority);
      largest_standing_ = std::max(largest_standing_, running.standing);
      spot.may_move = spot.may_move || running.may_move;
      spot.is_borrowed = spot.is_borrowed || running.is_borrowed;
      spot.lowest_priority = std::min(spot.lowest_priority, job.priority);
      spot.largest_standing = std::max(spot.largest_standing, running.standing);
    }
  }
  spots_.push_back({.first = running_.size()});
}

absl::Span<const RunningJobs::Running> RunningJobs::On(const Spot& spot) const {
  return absl::MakeConstSpan(running_).subspan(spot.first,
                                               (&spot)[1].first - spot.first);
}

bool RunningJobs::Reclaims(const Job& job) const {
  return any_borrowed_ &&
         state_.usage().IsGuaranteed(job.tenant, job.device_count,
                                     state_.policy().tenants);
}

class RunningJobs::Search {
 public:
  Search(const RunningJobs& jobs, const Job& job,
         const absl::btree_set<DeviceId>& excluded)
      : jobs_(jobs),
        reclaims_(jobs.Reclaims(job)),
        job_(job),
        need_(NeedOf(job)),
        largest_that_stays_(job.standing * jobs.state_.policy().hysteresis),
        sites_(jobs.state_.sites()) {
    for (const Spot& spot : jobs.Spots()) {
      if (!IsOfTheKind(spot)) continue;
      SiteOptions& site = sites_[spot.site];
      if (site.devices++ == 0) site.kind = spot.device->kind;
      if (IsAdmitted(spot, excluded)) Count(site, spot);
    }
    for (const SiteOptions& site : sites_) {
      largest_site_ = std::max(largest_site_, site.devices);
    }
    if (!IsPossible()) return;
    for (const Spot& spot : jobs.Spots()) {
      if (!IsOfTheKind(spot) || !IsAdmitted(spot, excluded)) continue;
      Consider(sites_[spot.site], spot);
    }
    for (SiteOptions& site : sites_) {
      std::sort(site.open.begin(), site.open.end(), IsBetter);
    }
  }

  std::optional<Room> Find() const {
    if (need_.devices > largest_site_) return OnWholeSites();
    std::optional<Room> room = OnOneSite();
    if (!room && need_.devices > 1 && sites_.size() > 1) room = ByMoving();
    return room;
  }

 private:
  bool IsOfTheKind(const Spot& spot) const {
    return need_.device_kind.empty() || KindMatches(*spot.device, need_);
  }

  bool IsAdmitted(const Spot& spot,
                  const absl::btree_set<DeviceId>& excluded) const {
    const Device& device = *spot.device;
    return spot.ready && (excluded.empty() || !excluded.contains(device.id)) &&
           (!device.reserved_for || device.reserved_for == job_.id);
  }

  // A bound that is quickly found, since mostly there is no room.
  void Count(SiteOptions& site, const Spot& spot) const {
    const bool opens = spot.free_bytes >= need_.bytes || spot.stops ||
                       (reclaims_ && spot.is_borrowed) ||
                       spot.lowest_priority < job_.priority ||
                       spot.largest_standing > largest_that_stays_;
    site.may_open += opens;
    site.may_move += !opens && spot.may_move;
  }

  bool IsPossible() const {
    uint32_t open = 0;
    for (const SiteOptions& site : sites_) open += site.may_open;
    if (open < need_.devices) return false;
    if (need_.devices > largest_site_) return true;
    return std::any_of(sites_.begin(), sites_.end(),
                       [&](const SiteOptions& site) {
                         return site.may_open > 0 &&
                                site.may_open + site.may_move >= need_.devices;
                       });
  }

  bool GivesWay(const Running& running) const {
    if (reclaims_ && running.is_borrowed) return true;
    if (!jobs_.state_.policy().order_preempts()) return false;
    if (running.priority != job_.priority) {
      return running.priority < job_.priority;
    }
    return running.standing > largest_that_stays_;
  }

  bool MayMove(const Running& running) const {
    return running.may_move && running.priority <= job_.priority;
  }

  // Tries first those that give way, furthest behind first, then those that
  // can move.
  void Consider(SiteOptions& site, const Spot& spot) const {
    absl::InlinedVector<const Running*, 4> give_way;
    absl::InlinedVector<const Running*, 4> move;
    uint64_t free = spot.free_bytes;
    int gangs = 0;
    for (const Running& running : jobs_.On(spot)) {
      if (running.stops) {
        free += running.job->bytes;
        continue;
      }
      if (running.job->device_count > 1) ++gangs;
      if (!running.can_give_way) continue;
      if (GivesWay(running)) {
        give_way.push_back(&running);
      } else if (MayMove(running)) {
        move.push_back(&running);
      }
    }
    const auto further = [](const Running* a, const Running* b) {
      return BehindOf(*a) > BehindOf(*b);
    };
    std::sort(give_way.begin(), give_way.end(), further);
    DeviceOption option{.device = spot.device};
    // Two jobs on several devices never share one.
    if (need_.devices <= 1) gangs = 0;
    const auto is_enough = [&] { return free >= need_.bytes && gangs == 0; };
    const auto take = [&](const Running& running,
                          absl::InlinedVector<JobId, 2>& list) {
      list.push_back(running.job->id);
      free += running.job->bytes;
      if (running.job->device_count > 1 && gangs > 0) --gangs;
      option.devices += running.job->device_count;
    };
    for (const Running* running : give_way) {
      if (is_enough()) break;
      take(*running, option.gives_way);
      option.behind = std::min(option.behind, BehindOf(*running));
    }
    if (is_enough()) {
      site.open.push_back(std::move(option));
      return;
    }
    for (const Running* running : move) {
      if (is_enough()) break;
      take(*running, option.moves);
    }
    if (is_enough()) site.moved.push_back(std::move(option));
  }

  static Behind BehindOf(const Running& running) {
    return {-int64_t{running.priority}, running.standing};
  }

  std::optional<Room> OnOneSite() const {
    const SiteOptions* best = nullptr;
    Score best_score;
    for (const SiteOptions& site : sites_) {
      if (site.open.size() < need_.devices) continue;
      Score score;
      for (uint32_t i = 0; i < need_.devices; ++i) score.Add(site.open[i]);
      if (best != nullptr && !score.IsBetterThan(best_score)) continue;
      best = &site;
      best_score = score;
    }
    if (best == nullptr) return std::nullopt;
    std::vector<const DeviceOption*> chosen;
    for (uint32_t i = 0; i < need_.devices; ++i) {
      chosen.push_back(&best->open[i]);
    }
    return RoomOf(chosen);
  }

  std::optional<Room> OnWholeSites() const {
    std::vector<std::pair<Score, const SiteOptions*>> whole;
    for (const SiteOptions& site : sites_) {
      if (site.open.empty() || site.open.size() < site.devices) continue;
      Score score;
      for (const DeviceOption& option : site.open) score.Add(option);
      whole.emplace_back(score, &site);
    }
    std::stable_sort(whole.begin(), whole.end(),
                     [](const auto& a, const auto& b) {
                       return a.first.IsBetterThan(b.first);
                     });
    std::vector<absl::string_view> kinds;
    for (const auto& [unused, first] : whole) {
      if (std::count(kinds.begin(), kinds.end(), first->kind) > 0) continue;
      kinds.push_back(first->kind);
      std::vector<const DeviceOption*> chosen;
      for (const auto& [score, site] : whole) {
        if (site->kind != first->kind) continue;
        for (const DeviceOption& option : site->open) {
          if (chosen.size() < need_.devices) chosen.push_back(&option);
        }
      }
      if (chosen.size() == need_.devices) return RoomOf(chosen);
    }
    return std::nullopt;
  }

  // On the site where the fewest devices must be given up by jobs that have
  // room on the others.
  std::optional<Room> ByMoving() const {
    std::optional<std::vector<const DeviceOption*>> best;
    uint32_t best_moved = std::numeric_limits<uint32_t>::max();
    for (const SiteOptions& site : sites_) {
      if (site.open.empty() ||
          site.open.size() + site.moved.size() < need_.devices) {
        continue;
      }
      std::vector<const DeviceOption*> chosen;
      for (const DeviceOption& option : site.open) chosen.push_back(&option);
      std::vector<JobId> moved;
      for (const DeviceOption* option : LargestFirst(site.moved)) {
        if (chosen.size() == need_.devices) break;
        chosen.push_back(option);
        moved.insert(moved.end(), option->moves.begin(), option->moves.end());
      }
      std::sort(moved.begin(), moved.end());
      moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
      uint32_t devices = 0;
      for (JobId id : moved) devices += jobs_.state_.jobs().at(id).device_count;
      if (devices >= best_moved || !HaveRoomBeside(site, moved)) continue;
      best_moved = devices;
      best = std::move(chosen);
    }
    if (!best) return std::nullopt;
    return RoomOf(*best);
  }

  // So that few jobs move.
  static std::vector<const DeviceOption*> LargestFirst(
      const std::vector<DeviceOption>& options) {
    std::vector<const DeviceOption*> sorted;
    for (const DeviceOption& option : options) sorted.push_back(&option);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const DeviceOption* a, const DeviceOption* b) {
                       if (a->devices != b->devices) {
                         return a->devices > b->devices;
                       }
                       return a->moves.front() < b->moves.front();
                     });
    return sorted;
  }

  bool HaveRoomBeside(const SiteOptions& left,
                      const std::vector<JobId>& moved) const {
    std::vector<size_t> open;
    for (const SiteOptions& site : sites_) {
      open.push_back(&site == &left ? 0 : site.open.size());
    }
    for (JobId id : moved) {
      const uint32_t needed = jobs_.state_.jobs().at(id).device_count;
      size_t* best = nullptr;
      for (size_t& count : open) {
        if (count >= needed && (best == nullptr || count < *best)) {
          best = &count;
        }
      }
      if (best == nullptr) return false;
      *best -= needed;
    }
    return true;
  }

  const RunningJobs& jobs_;
  const bool reclaims_;
  const Job& job_;
  const Need need_;
  const double largest_that_stays_;  // standing, of jobs of its priority
  std::vector<SiteOptions> sites_;
  uint32_t largest_site_ = 0;
};

std::optional<Room> RunningJobs::RoomFor(
    const Job& job, const absl::btree_set<DeviceId>& excluded) const {
  const bool someone_gives_way =
      lowest_priority_ < job.priority ||
      largest_standing_ > job.standing * state_.policy().hysteresis ||
      Reclaims(job);
  if (!someone_gives_way && job.device_count == 1) return std::nullopt;
  return Search(*this, job, excluded).Find();
}

bool RoomIsComing(const State& state, const Job& job) {
  for (DeviceId id : job.reserved_devices) {
    const Device& device = state.devices().at(id);
    uint64_t free = device.free_bytes();
    for (JobId other : device.jobs) {
      const Job& there = state.jobs().at(other);
      if (Stopping(there)) {
        free += there.bytes;
      } else if (there.device_count > 1 && job.device_count > 1) {
        return false;
      }
    }
    if (!device.ready || free < job.bytes) return false;
  }
  return !job.reserved_devices.empty();
}

}  // namespace gpupool::scheduler
