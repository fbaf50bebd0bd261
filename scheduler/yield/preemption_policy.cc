#include "scheduler/yield/preemption_policy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/btree_map.h"
#include "scheduler/order/tenant_order.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::scheduler {
namespace {

// The jobs that must leave to make one device free enough.
struct DeviceOption {
  const Device* device = nullptr;
  absl::InlinedVector<JobId, 2> gives_way;
  absl::InlinedVector<JobId, 2> moves;
  Behind behind;         // least behind one of `gives_way`
  uint32_t devices = 0;  // devices of all those jobs
};

struct SiteOptions {
  absl::string_view kind;
  uint32_t devices = 0;
  std::vector<DeviceOption> open;   // free now or when others give way
  std::vector<DeviceOption> moved;  // free when others move
};

// Prefers the option whose jobs are furthest behind.
bool IsBetter(const DeviceOption& a, const DeviceOption& b) {
  if (a.behind != b.behind) return a.behind > b.behind;
  if (a.devices != b.devices) return a.devices < b.devices;
  // Ties go to the lower id, so that the same state always gives the same
  // choice.
  return a.device->id < b.device->id;
}

struct Score {
  Behind behind;
  uint32_t devices = 0;
  void Add(const DeviceOption& option) {
    // A choice is only as good as its job that is least behind.
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

class Search {
 public:
  Search(const RunningJobs& jobs, const Job& job)
      : jobs_(jobs),
        job_(job),
        need_(NeedOf(jobs.state(), job)),
        claim_(jobs.ClaimOf(job)),
        sites_(jobs.state().sites()) {
    for (const RunningJobs::Spot& spot : jobs.spots()) {
      if (!DeviceMatches(*spot.device, need_)) continue;
      SiteOptions& site = sites_[spot.site];
      // Counts devices that admit no such job, too. A site is whole only if all
      // of its devices are open.
      if (site.devices++ == 0) site.kind = spot.device->kind;
      largest_site_ = std::max(largest_site_, site.devices);
      if (jobs.IsAdmitted(spot, need_)) Consider(site, spot);
    }
    for (SiteOptions& site : sites_) {
      std::sort(site.open.begin(), site.open.end(), IsBetter);
    }
  }

  std::optional<Room> Find() const {
    // No single site can ever hold the job.
    if (need_.devices > largest_site_) return OnWholeSites();
    std::optional<Room> room = OnOneSite();
    if (!room && need_.devices > 1 && sites_.size() > 1) room = ByMoving();
    return room;
  }

 private:
  using Running = RunningJobs::OnDevice;

  bool MayMove(const Running& running) const {
    return running.may_move && running.job->queue == job_.queue &&
           running.priority <= job_.priority;
  }

  // Adds the device's option. Jobs that give way leave first, furthest behind
  // first; jobs that can move leave only if that is not enough.
  void Consider(SiteOptions& site, const RunningJobs::Spot& spot) const {
    absl::InlinedVector<const Running*, 4> give_way;
    absl::InlinedVector<const Running*, 4> move;
    Meanwhile until = WhenSettled(*spot.device);
    for (const Running& running : jobs_.On(spot)) {
      // The room of a stopping job is on its way, so nobody else has to leave
      // for it.
      if (running.stops) until.Leave(*running.job, *spot.device);
      if (!running.can_give_way) continue;
      // A preempted job waits in the queue. A moved job leaves only if another
      // site has room for it.
      if (jobs_.GivesWay(claim_, running)) {
        give_way.push_back(&running);
      } else if (MayMove(running)) {
        move.push_back(&running);
      }
    }
    const auto further = [](const Running* a, const Running* b) {
      return a->behind() > b->behind();
    };
    std::sort(give_way.begin(), give_way.end(), further);
    DeviceOption option{.device = spot.device};
    const auto is_enough = [&] {
      return !ObstacleFor(jobs_.state(), *spot.device, need_, until);
    };
    const auto take = [&](const Running& running,
                          absl::InlinedVector<JobId, 2>& list) {
      list.push_back(running.job->id);
      until.Leave(*running.job, *spot.device);
      option.devices += running.job->device_count;
    };
    for (const Running* running : give_way) {
      if (is_enough()) break;
      take(*running, option.gives_way);
      option.behind = std::min(option.behind, running->behind());
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

  std::optional<Room> OnOneSite() const {
    const SiteOptions* best = nullptr;
    Score best_score;
    for (const SiteOptions& site : sites_) {
      if (site.open.size() < need_.devices) continue;
      Score score;
      // The options are sorted, so the first ones are the best of this site.
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
      // A group that spans sites takes whole sites only.
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
      // All ranks need devices of one kind. Each kind is tried once, in the
      // order of its best site.
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

  // Returns room by moving jobs: on the site where they hold the fewest
  // devices, if the other sites have room for them.
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
      // A job on several devices is in the option of each of them.
      moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
      uint32_t devices = 0;
      for (JobId id : moved)
        devices += jobs_.state().jobs().at(id).device_count;
      if (devices >= best_moved || !HaveRoomBeside(site, moved)) continue;
      best_moved = devices;
      best = std::move(chosen);
    }
    if (!best) return std::nullopt;
    return RoomOf(*best);
  }

  // Sorts the options so that few jobs move.
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
      // The site that is being emptied takes none of the moved jobs.
      open.push_back(&site == &left ? 0 : site.open.size());
    }
    for (JobId id : moved) {
      const uint32_t needed = jobs_.state().jobs().at(id).device_count;
      size_t* best = nullptr;
      for (size_t& count : open) {
        // The tightest fit leaves large sites for the jobs that come later in
        // the list.
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
  const Job& job_;
  const Need need_;
  const RunningJobs::Claim claim_;
  std::vector<SiteOptions> sites_;
  uint32_t largest_site_ = 0;
};

}  // namespace

RoomFinder::RoomFinder(const RunningJobs& jobs) : jobs_(jobs) {
  const auto queues = static_cast<uint32_t>(jobs.state().queues().size());
  bounds_.reserve(queues);
  for (uint32_t queue = 0; queue < queues; ++queue) {
    bounds_.push_back(
        {RoomBound(jobs, queue, false), RoomBound(jobs, queue, true)});
  }
}

void RoomFinder::NoteChanges() {
  for (OfQueue& of_queue : bounds_) {
    of_queue.given_way.NoteChanges();
    of_queue.reclaimed.NoteChanges();
  }
}

std::optional<Room> RoomFinder::RoomFor(const Job& job) {
  if (!jobs_.MayTake(job.queue)) return std::nullopt;
  if (job.device_count == 1 && !jobs_.SomeoneGivesWay(job)) return std::nullopt;
  OfQueue& bounds = bounds_[job.queue];
  RoomBound& bound = jobs_.Reclaims(job) ? bounds.reclaimed : bounds.given_way;
  const bool has_devices = jobs_.state().reservations().Name(job.tenant);
  // The bound is cheap. It spares a search that cannot succeed.
  if (!has_devices && !bound.MayHold(job)) return std::nullopt;
  return Search(jobs_, job).Find();
}

PreemptionReason ReasonToGiveWay(const State& state, const Job& first,
                                 const Job& other, absl::Time now) {
  if (!state.queues().TakesFrom(first.queue, other.queue)) {
    return PreemptionReason::kGuarantee;
  }
  if (first.queue != other.queue) return PreemptionReason::kQueue;
  if (other.priority < first.priority) return PreemptionReason::kPriority;
  const Queue& queue = state.QueueOf(first);
  const bool is_behind =
      other.priority == first.priority &&
      // The factor keeps two jobs of nearly equal standing from preempting each
      // other in turn.
      KeptStandingOf(queue, other, now) > first.standing * queue.hysteresis;
  return is_behind ? PreemptionReason::kOrder : PreemptionReason::kGuarantee;
}

bool RoomIsComing(const State& state, const Job& job) {
  if (job.reserved_devices.empty()) return false;
  const Need need = NeedOf(state, job);
  for (DeviceId id : job.reserved_devices) {
    const Device& device = state.devices().at(id);
    Meanwhile until = WhenSettled(device);
    for (JobId other : device.jobs) {
      const Job& there = state.jobs().at(other);
      // Only jobs that were told to stop are sure to leave.
      if (IsStopping(there)) until.Leave(there, device);
    }
    if (ObstacleFor(state, device, need, until)) return false;
  }
  return HostsWillHold(state, need, job.reserved_devices);
}

}  // namespace gpupool::scheduler
