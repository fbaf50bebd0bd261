#include "scheduler/order/queue_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "scheduler/order/backfill_policy.h"
#include "scheduler/order/tenant_order.h"
#include "scheduler/place/free_devices.h"
#include "scheduler/place/placement_policy.h"

namespace gpupool::scheduler {
namespace {

bool GoesFirst(const Job* a, const Job* b) { return KeyOf(*a) < KeyOf(*b); }

// Sorts jobs of one queue by the order in which they may start.
void Sort(const State& state, uint32_t queue, std::vector<const Job*>& jobs) {
  std::sort(jobs.begin(), jobs.end(), GoesFirst);
  if (state.queues().at(queue).queue.order == Order::kFairShare) {
    SortByShare(state, absl::MakeSpan(jobs));
  }
}

// Iterates over the jobs of one group that may start next, in order: the first
// job of each shape that has no reserved devices and no stopping attempt.
class FirstOfShapes {
 public:
  FirstOfShapes(const State& state, const WaitingJobs::Heads& heads)
      : state_(state), next_(heads.begin()), end_(heads.end()) {}

  // Returns null at the end.
  const Job* Next() {
    while (const std::optional<Entry> entry = TakeFirst()) {
      const Job& job = state_.jobs().at(entry->key.job);
      if (IsAtLimit(state_, job)) continue;  // all jobs of the shape are
      if (job.reserved_devices.empty() &&
          state_.StrayDevice(job.id) == nullptr) {
        return &job;
      }
      const WaitingJobs::Keys& keys = entry->shape->second;
      const auto second = keys.upper_bound(entry->key);
      if (second == keys.end()) continue;
      behind_.emplace(*second, entry->shape);
    }
    return nullptr;
  }

 private:
  struct Entry {
    QueueKey key;
    const WaitingJobs::OfShape* shape = nullptr;
  };

  // Takes the first of the remaining shapes. Merges two sorted sequences:
  // shapes that were not visited, and shapes with a first job left out.
  std::optional<Entry> TakeFirst() {
    if (!behind_.empty() &&
        (next_ == end_ || behind_.begin()->first < next_->first)) {
      const Entry entry{behind_.begin()->first, behind_.begin()->second};
      behind_.erase(behind_.begin());
      return entry;
    }
    if (next_ == end_) return std::nullopt;
    const Entry entry{next_->first, next_->second};
    ++next_;
    return entry;
  }

  const State& state_;
  WaitingJobs::Heads::const_iterator next_;
  WaitingJobs::Heads::const_iterator end_;
  // The next jobs of shapes whose first ones were left out.
  WaitingJobs::Heads behind_;
};

bool SomeoneWaits(const State& state, uint32_t queue) {
  const auto& heads = state.waiting().heads();
  const auto first = heads.lower_bound(WaitingGroup{queue, ""});
  return first != heads.end() && first->first.queue == queue;
}

// Returns the candidates for each queue. Waiting queues share kMaxScan, so that
// several queues cost a decision no more than one.
size_t MostCandidates(const State& state) {
  const auto queues = static_cast<uint32_t>(state.queues().size());
  size_t waiting = 0;
  for (uint32_t queue = 0; queue < queues; ++queue) {
    waiting += SomeoneWaits(state, queue);
  }
  return kMaxScan / std::max<size_t>(waiting, 1);
}

// Chooses the next start of a queue without backfill.
QueueChoice ChooseInOrder(const QueueTurn& turn) {
  const State& state = turn.state;
  QueueChoice choice;
  const std::vector<const Job*> jobs = CandidatesOf(state, turn.queue);
  if (jobs.empty()) return choice;
  const Queues::Entry& entry = state.queues().at(turn.queue);
  absl::btree_set<DeviceId> excluded = turn.held;
  FreeDevices* free = &turn.free;
  std::optional<FreeDevices> fewer;
  size_t excluded_there = excluded.size();
  // Passes count only where nobody gives way: elsewhere a job makes room for
  // itself.
  const bool counts = !entry.queue.by_standing();
  const bool others_count = state.queues().size() > 1;
  for (const Job* job : jobs) {
    const Need need = NeedOf(state, *job);
    if (!job->reserved_devices.empty() || free->MayHold(need)) {
      Placement placement = Place(state, need, excluded);
      if (placement.fit == Fit::kNow) {
        choice.start = {job->id, std::move(placement.devices), {}};
        if (counts) choice.start->passed = std::move(choice.waiting);
        return choice;
      }
      // Renew the quick test, so that it also knows the devices held meanwhile.
      if (excluded.size() > excluded_there) {
        free = &fewer.emplace(free->Without(excluded));
        excluded_there = excluded.size();
      }
    }
    if (!counts && !others_count) continue;
    // A job that fits nowhere, even in an empty pool, is not passed.
    if (!free->MayEverHold(need)) continue;
    choice.waiting.push_back(job->id);
    const auto& kept = job->held_devices;
    if (others_count) choice.kept.insert(kept.begin(), kept.end());
    if (counts) excluded.insert(kept.begin(), kept.end());
  }
  return choice;
}

}  // namespace

bool IsAtLimit(const State& state, const Job& job) {
  return state.queues().IsFull(job.queue, job.device_count) ||
         state.usage()
             .LevelAtLimit(job.tenant, {job.device_count, job.bytes},
                           state.policy().tenants)
             .has_value();
}

bool StandsAbove(const State& state, const Job& first, const Job& second) {
  if (first.queue == second.queue) return first.priority > second.priority;
  return state.queues().IsAbove(first.queue, second.queue);
}

std::vector<const Job*> CandidatesOf(const State& state, uint32_t queue) {
  absl::flat_hash_map<const Job*, FirstOfShapes> groups;
  std::vector<const Job*> firsts;
  const auto& heads = state.waiting().heads();
  for (auto group = heads.lower_bound(WaitingGroup{queue, ""});
       group != heads.end() && group->first.queue == queue; ++group) {
    FirstOfShapes jobs(state, group->second);
    const Job* first = jobs.Next();
    if (first == nullptr) continue;
    firsts.push_back(first);
    groups.emplace(first, std::move(jobs));
  }
  if (firsts.size() > 1) Sort(state, queue, firsts);
  const size_t most = MostCandidates(state);
  std::vector<const Job*> jobs;
  jobs.reserve(most + state.reserving().size());
  for (const Job* first : firsts) {
    FirstOfShapes& more = groups.at(first);
    for (const Job* job = first; job != nullptr && jobs.size() < most;
         job = more.Next()) {
      jobs.push_back(job);
    }
  }
  const auto others = static_cast<ptrdiff_t>(jobs.size());
  // Jobs with reserved devices are always candidates, since those devices stay
  // idle until they start.
  for (JobId id : state.reserving()) {
    const Job& job = state.jobs().at(id);
    if (job.queue != queue || IsAtLimit(state, job)) continue;
    if (state.StrayDevice(id) == nullptr) jobs.push_back(&job);
  }
  const auto reserving = jobs.begin() + others;
  if (reserving == jobs.end()) return jobs;
  if (state.queues().at(queue).queue.order == Order::kFairShare) {
    Sort(state, queue, jobs);
    return jobs;
  }
  // The others are in order already.
  std::sort(reserving, jobs.end(), GoesFirst);
  std::inplace_merge(jobs.begin(), reserving, jobs.end(), GoesFirst);
  return jobs;
}

std::vector<const Job*> Candidates(const State& state) {
  std::vector<const Job*> all;
  for (uint32_t queue : state.queues().InOrder()) {
    std::vector<const Job*> jobs = CandidatesOf(state, queue);
    if (all.empty()) {
      all = std::move(jobs);
    } else {
      // GCC 14 warns of an overflow in insert, where there is none.
      std::copy(jobs.begin(), jobs.end(), std::back_inserter(all));
    }
  }
  return all;
}

void NextStarts::Forget() {
  free_.reset();
  rooms_.resize(state_.queues().size());
  nothing_.resize(state_.queues().size());
  bool are_kept = last_ && state_.policy().tenants.empty() &&
                  candidates_ == MostCandidates(state_) &&
                  reserving_ == state_.reserving();
  if (are_kept) {
    // A task may let others of its array into the queue. A job that has been
    // passed for too long holds devices from now on.
    const Job& started = state_.jobs().at(last_->job);
    nothing_[started.queue].reset();
    are_kept = started.array == JobId() &&
               absl::c_all_of(last_->passed, [&](JobId id) {
                 return state_.jobs().at(id).passes < kMaxPasses;
               });
  }
  if (!are_kept) absl::c_fill(nothing_, std::nullopt);
  candidates_ = MostCandidates(state_);
  reserving_ = state_.reserving();
}

QueueChoice NextStarts::Ask(uint32_t queue,
                            const absl::btree_set<DeviceId>& excluded) {
  std::optional<Nothing>& nothing = nothing_[queue];
  if (nothing && nothing->excluded == excluded) return nothing->choice;
  QueueChoice choice = AskAgain(queue, excluded);
  // A start may move a reservation, and changes the order of tenants.
  const Order order = state_.queues().at(queue).queue.order;
  if (!choice.start && order != Order::kBackfill &&
      order != Order::kFairShare) {
    nothing = Nothing{excluded, choice};
  }
  return choice;
}

QueueChoice NextStarts::AskAgain(uint32_t queue,
                                 const absl::btree_set<DeviceId>& excluded) {
  const Queues::Entry& entry = state_.queues().at(queue);
  std::optional<FreeDevices> own;
  FreeDevices* free = nullptr;
  if (!entry.may_use.empty()) {
    free = &own.emplace(state_, excluded, &entry);
  } else {
    if (!free_) free_.emplace(state_, held_);
    free = excluded.size() == held_.size()
               ? &*free_
               : &own.emplace(free_->Without(excluded));
  }
  const QueueTurn turn{state_, queue, excluded, now_, *free, rooms_[queue]};
  return entry.queue.order == Order::kBackfill ? ChooseBackfill(turn)
                                               : ChooseInOrder(turn);
}

std::optional<NextStart> NextStarts::Choose() {
  const State& state = state_;
  Forget();
  struct Earlier {
    uint32_t queue = 0;
    QueueChoice choice;
  };
  absl::InlinedVector<Earlier, 4> earlier;
  for (uint32_t queue : state.queues().InOrder()) {
    if (!SomeoneWaits(state, queue)) continue;
    absl::btree_set<DeviceId> excluded = held_;
    std::vector<JobId> passed;
    for (const Earlier& one : earlier) {
      // Such a queue would take back what it needs: exclude nothing for it.
      if (state.queues().TakesFrom(one.queue, queue)) continue;
      const QueueChoice& choice = one.choice;
      excluded.insert(choice.kept.begin(), choice.kept.end());
      passed.insert(passed.end(), choice.waiting.begin(), choice.waiting.end());
    }
    QueueChoice choice = Ask(queue, excluded);
    if (choice.start) {
      std::vector<JobId>& all = choice.start->passed;
      all.insert(all.begin(), passed.begin(), passed.end());
      last_ = std::move(choice.start);
      return last_;
    }
    earlier.push_back({queue, std::move(choice)});
  }
  return std::nullopt;
}

}  // namespace gpupool::scheduler
