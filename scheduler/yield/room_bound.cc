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

size_t Enough(absl::Span<const uint64_t> descending, uint64_t bytes) {
  size_t count = 0;
  while (count < descending.size() && descending[count] >= bytes) ++count;
  return count;
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

void RoomBound::FindSites() {
  sites_.resize(jobs_.state().sites());
  spots_.resize(jobs_.spots().size());
  for (const RunningJobs::Spot& spot : jobs_.spots()) {
    if (!MayUse(spot)) continue;
    Site& site = sites_[spot.site];
    if (site.spots++ == 0) site.kind = spot.device->kind;
  }
  size_t first = 0;
  for (Site& site : sites_) {
    site.first = first;
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
      ObstacleFor(jobs_.state(), *from.device, least, {.settled = true})) {
    return;
  }
  spot.open = from.free_bytes;
  for (const RunningJobs::OnDevice& job : jobs_.On(from)) {
    if (job.stops || IsGivenBack(job) || jobs_.TakesFrom(queue_, job)) {
      spot.open += job.bytes;
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
  const bool falls = stays.priority > stays_.priority;
  for (const Leaver& leaver : leavers_) {
    if (!falls) break;
    const int64_t priority = leaver.behind.priority;
    if (!leaver.job->may_move || priority >= stays.priority) continue;
    if (priority >= stays_.priority) Stay(leaver, true);
  }
  stays_ = stays;
  const auto first = leavers_.begin() + static_cast<ptrdiff_t>(staying_);
  if (raised_++ == kRaisesUnsorted) std::sort(first, leavers_.end());
  for (size_t i = staying_; i < leavers_.size(); ++i) {
    const Leaver leaver = leavers_[i];
    if (leaver.behind > stays) {
      if (raised_ > kRaisesUnsorted) break;
      continue;
    }
    Stay(leaver, false);
    if (!leaver.job->may_move) Stay(leaver, true);
    leavers_[i] = leavers_[staying_];
    leavers_[staying_++] = leaver;
  }
}

void RoomBound::Renew(Site& site) {
  site.most = 0;
  for (size_t i = site.first; i < site.first + site.spots; ++i) {
    const OnSpot& spot = spots_[by_site_[i]];
    site.most = std::max(site.most, spot.open);
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
  size_t largest = 0;
  size_t open_in_all = 0;
  size_t whole = 0;  // devices of entirely open machines
  bool may_reach = false;
  for (const Site& site : sites_) {
    if (site.spots == 0) continue;
    if (!KindMayMatch(site.kind, need)) continue;
    largest = std::max(largest, site.spots);
    const size_t open = Enough(
        absl::MakeConstSpan(open_).subspan(site.first, site.spots), need.bytes);
    if (open >= need.devices) return true;
    open_in_all += open;
    if (open == site.spots) whole += open;
    may_reach =
        may_reach || (open > 0 && need.devices <= site.spots &&
                      reach_[site.first + need.devices - 1] >= need.bytes);
  }
  if (need.devices > largest) return whole >= need.devices;
  // Moved jobs need as many open devices on other machines.
  return may_reach && open_in_all >= need.devices;
}

bool RoomBound::ADeviceHolds(const Need& need) const {
  for (size_t at = 0; at < spots_.size(); ++at) {
    const OnSpot& spot = spots_[at];
    if (!spot.counts) continue;
    const Device& device = *jobs_.spots()[at].device;
    Meanwhile until = WhenEmptied(device);
    until.returned_bytes =
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
  if (need.devices > 1) return HoldsGang(need);
  if (need.demands.exclusive || NamesDevice(need.wanted_device)) {
    return ADeviceHolds(need);
  }
  return std::any_of(sites_.begin(), sites_.end(), [&](const Site& site) {
    return site.spots > 0 && site.most >= need.bytes &&
           KindMayMatch(site.kind, need);
  });
}

}  // namespace gpupool::scheduler
