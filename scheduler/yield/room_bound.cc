#include "scheduler/yield/room_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "scheduler/place/obstacle.h"

namespace gpupool::scheduler {
namespace {

// Number of raises up to which scanning all leavers is cheaper than sorting
// them.
constexpr size_t kRaisesUnsorted = 4;

// Returns how many of the sizes in `descending` order reach `bytes`.
size_t Enough(absl::Span<const uint64_t> descending, uint64_t bytes) {
  size_t count = 0;
  while (count < descending.size() && descending[count] >= bytes) ++count;
  return count;
}

// Returns whether at least `count` >= 1 of them do.
bool Has(absl::Span<const uint64_t> descending, size_t count, uint64_t bytes) {
  return count <= descending.size() && descending[count - 1] >= bytes;
}

}  // namespace

bool RoomBound::MayUse(const RunningJobs::Spot& spot) const {
  return entry_.MayUse(spot.device->id);
}

bool RoomBound::IsGivenBack(const RunningJobs::OnDevice& job) const {
  return reclaims_ && jobs_.IsBorrowedFrom(queue_, job);
}

void RoomBound::FindLeavers() {
  leavers_.reserve(spots_.size());
  for (size_t at = 0; at < spots_.size(); ++at) {
    const RunningJobs::Spot& spot = jobs_.spots()[at];
    if (!spot.admitted || !MayUse(spot)) continue;
    for (const RunningJobs::OnDevice& job : jobs_.On(spot)) {
      if (IsGivenBack(job) || !jobs_.TakesFrom(queue_, job)) continue;
      leavers_.push_back({job.behind(), &job, at});
    }
  }
}

size_t RoomBound::KindOf(absl::string_view name) {
  const auto same = [&](const Kind& kind) { return kind.name == name; };
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), same);
  const auto number = static_cast<size_t>(found - kinds_.begin());
  if (found == kinds_.end()) kinds_.push_back({.name = name});
  return number;
}

void RoomBound::FindSites() {
  sites_.resize(jobs_.state().sites());
  spots_.resize(jobs_.spots().size());
  for (const RunningJobs::Spot& spot : jobs_.spots()) {
    if (!MayUse(spot)) continue;
    Site& site = sites_[spot.site];
    if (site.spots++ == 0) site.kind = KindOf(spot.device->kind);
  }
  size_t first = 0;
  for (Site& site : sites_) {
    site.first = first;
    // The counts become offsets into `by_site_`. The loop below counts again
    // while it fills.
    first += std::exchange(site.spots, 0);
  }
  by_site_.resize(spots_.size());
  open_.resize(spots_.size());
  reach_.resize(spots_.size());
  for (size_t at = 0; at < spots_.size(); ++at) {
    spots_[at].site = jobs_.spots()[at].site;
    if (!MayUse(jobs_.spots()[at])) continue;
    Site& site = sites_[spots_[at].site];
    by_site_[site.first + site.spots++] = at;
  }
}

void RoomBound::Restart() {
  // The sites and leavers depend only on `jobs_`, so they are found once.
  if (spots_.empty()) {
    FindSites();
    FindLeavers();
  }
  for (Site& site : sites_) site.is_current = false;
  const Need least = LeastNeed(&entry_);
  for (size_t at = 0; at < spots_.size(); ++at) {
    spots_[at] = {.site = spots_[at].site};
    Add(jobs_.spots()[at], least, spots_[at]);
  }
  staying_ = 0;
  raised_ = 0;
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  stays_ = {kLeast, kLeast, 0};
  is_current_ = true;
}

void RoomBound::Add(const RunningJobs::Spot& from, const Need& least,
                    OnSpot& spot) const {
  if (!from.admitted ||
      // A device that refuses even the least need refuses every need.
      ObstacleFor(jobs_.state(), *from.device, least, {.settled = true})) {
    return;
  }
  spot.open = from.free_bytes;
  for (const RunningJobs::OnDevice& job : jobs_.On(from)) {
    if (job.stops || IsGivenBack(job) || jobs_.TakesFrom(queue_, job)) {
      spot.open += job.bytes;
      // A device holds at most one gang, so one that stays keeps all others
      // out.
    } else if (job.is_gang) {
      ++spot.open_gangs;
    }
  }
  spot.reach = spot.open;
  spot.reach_gangs = spot.open_gangs;
  spot.counts = true;
}

void RoomBound::Stay(const Leaver& leaver, bool in_reach) {
  OnSpot& spot = spots_[leaver.spot];
  // A stopping job leaves in any case.
  if (!spot.counts || leaver.job->stops) return;
  sites_[spot.site].is_current = false;
  const RunningJobs::OnDevice& job = *leaver.job;
  if (in_reach) {
    spot.reach -= job.bytes;
    spot.reach_gangs += job.is_gang;
  } else {
    spot.open -= job.bytes;
    spot.open_gangs += job.is_gang;
  }
}

// Walks only forward while `stays` grows. If it falls, all leavers are counted
// anew.
void RoomBound::Raise(const Behind& stays) {
  if (!is_current_ || stays < stays_) Restart();
  // A moved job is of the same queue and does not go first by priority.
  // Priorities are negated here. A larger number is a lower priority.
  const bool falls = stays.priority > stays_.priority;
  for (const Leaver& leaver : leavers_) {
    if (!falls) break;
    const int64_t priority = leaver.behind.priority;
    if (!leaver.job->may_move || priority >= stays.priority) continue;
    if (priority >= stays_.priority) Stay(leaver, true);
  }
  stays_ = stays;
  const auto first = leavers_.begin() + static_cast<ptrdiff_t>(staying_);
  // From here on the loop may end at the first leaver that is behind.
  if (raised_++ == kRaisesUnsorted) std::sort(first, leavers_.end());
  for (size_t i = staying_; i < leavers_.size(); ++i) {
    const Leaver leaver = leavers_[i];
    if (leaver.behind > stays) {
      if (raised_ > kRaisesUnsorted) break;
      continue;
    }
    Stay(leaver, false);
    if (!leaver.job->may_move) Stay(leaver, true);
    // Leavers that stay move to the front, so that no later call visits them.
    leavers_[i] = leavers_[staying_];
    leavers_[staying_++] = leaver;
  }
}

void RoomBound::Renew(Site& site) {
  site.most = 0;
  for (size_t i = site.first; i < site.first + site.spots; ++i) {
    const OnSpot& spot = spots_[by_site_[i]];
    site.most = std::max(site.most, spot.open);
    // open_ and reach_ bound gangs only.
    open_[i] = spot.open_gangs == 0 ? spot.open : 0;
    reach_[i] = spot.reach_gangs == 0 ? spot.reach : 0;
  }
  const auto sort = [&](std::vector<uint64_t>& bytes) {
    const auto first = bytes.begin() + static_cast<ptrdiff_t>(site.first);
    std::sort(first, first + static_cast<ptrdiff_t>(site.spots),
              std::greater<>());
  };
  sort(open_);
  sort(reach_);
  site.is_current = true;
}

bool RoomBound::HoldsGang(const Need& need) const {
  const size_t count = need.devices;
  size_t largest = 0;
  bool may_reach = false;
  for (const Site& site : sites_) {
    if (site.spots == 0 || !kinds_[site.kind].matches) continue;
    largest = std::max(largest, site.spots);
    if (Has(Of(site, open_), count, need.bytes)) return true;
    may_reach = may_reach || (Has(Of(site, reach_), count, need.bytes) &&
                              Has(Of(site, open_), 1, need.bytes));
  }
  // Moved jobs need as many open devices on other machines.
  if (count <= largest) return may_reach && OpenInAll(need, false) >= count;
  return OpenInAll(need, true) >= count;
}

size_t RoomBound::OpenInAll(const Need& need, bool only_whole) const {
  size_t all = 0;
  for (const Site& site : sites_) {
    if (site.spots == 0 || !kinds_[site.kind].matches) continue;
    const size_t open = Enough(Of(site, open_), need.bytes);
    if (open == site.spots || !only_whole) all += open;
  }
  return all;
}

bool RoomBound::ADeviceHolds(const Need& need) const {
  for (size_t at = 0; at < spots_.size(); ++at) {
    const OnSpot& spot = spots_[at];
    if (!spot.counts) continue;
    const Device& device = *jobs_.spots()[at].device;
    Meanwhile until = WhenEmptied(device);
    until.returned_bytes =
        // The difference may be negative. The unsigned subtraction wraps, and
        // the cast gives it back.
        static_cast<int64_t>(spot.open - device.free_bytes());
    if (!ObstacleFor(jobs_.state(), device, need, until)) return true;
  }
  return false;
}

bool RoomBound::MayHold(const Job& job) {
  Raise(jobs_.Stays(job));
  for (Site& site : sites_) {
    if (!site.is_current) Renew(site);
  }
  const Need need = NeedOf(jobs_.state(), job);
  for (Kind& kind : kinds_) kind.matches = KindMayMatch(kind.name, need);
  if (need.devices > 1) return HoldsGang(need);
  if (need.demands.exclusive || NamesDevice(need.wanted_device)) {
    return ADeviceHolds(need);
  }
  return std::any_of(sites_.begin(), sites_.end(), [&](const Site& site) {
    return site.spots > 0 && site.most >= need.bytes &&
           kinds_[site.kind].matches;
  });
}

}  // namespace gpupool::scheduler
