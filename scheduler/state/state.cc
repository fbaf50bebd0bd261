#include "scheduler/state/state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/state/state_editor.h"

namespace gpupool::scheduler {
namespace {

std::vector<Machine>::iterator FindMachine(std::vector<Machine>& machines,
                                           uint32_t node) {
  return std::find_if(machines.begin(), machines.end(),
                      [&](const Machine& m) { return m.node == node; });
}

}  // namespace

void State::SetPolicy(const QueuePolicy& policy) {
  policy_ = policy;
  queues_ = Queues(policy);
  for (const auto& [id, device] : devices_) {
    queues_.AddDevice(device.name, device.kind);
  }
  preempts_ = queues_.preempt() || HasGuarantees(policy.tenants);
}

Shape State::ShapeOf(const Job& job) const {
  const Order order = QueueOf(job).order;
  Shape shape{job.queue, job.wanted_device, job.device_count, job.bytes,
              job.demands};
  if (order == Order::kBackfill && job.expected_run) {
    const double seconds =
        absl::ToDoubleSeconds(*job.expected_run - job.attained);
    // Powers of two keep the number of shapes small (backfill_policy.h).
    shape.length = 1 + std::ilogb(std::max(seconds, 1.0));
  }
  // Jobs of one shape must be alike in all that decides on their start. Here
  // the tenant decides, too.
  if (order == Order::kFairShare || !policy_.tenants.empty() ||
      reservations_.Name(job.tenant)) {
    shape.tenant = job.tenant;
  }
  return shape;
}

WaitingGroup State::GroupOf(const Job& job) const {
  if (QueueOf(job).order != Order::kFairShare) return {job.queue, ""};
  return {job.queue, job.tenant};
}

State::State() = default;
State::State(const State&) = default;
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

State State::Clone() const { return *this; }

DeviceId State::AddDevice(absl::string_view name, absl::string_view kind,
                          uint64_t full_bytes, const DeviceOptions& options) {
  const DeviceId id(devices_.size());
  auto site = std::find(sites_.begin(), sites_.end(),
                        std::make_pair(options.node, std::string(kind)));
  // Devices of one kind on one node are a site: a group runs there without
  // leaving the node.
  if (site == sites_.end()) site = sites_.emplace(site, options.node, kind);
  Device& device = devices_.Add();
  device.id = id;
  device.name = std::string(name);
  device.kind = std::string(kind);
  device.site = static_cast<uint32_t>(site - sites_.begin());
  auto machine = FindMachine(machines_, options.node);
  if (machine == machines_.end()) {
    machine = machines_.insert(machine, Machine{.node = options.node});
  }
  device.machine = static_cast<uint32_t>(machine - machines_.begin());
  queues_.AddDevice(name, kind);
  usage_.AddCapacity(kind, 1, 0);
  StateEditor(*this).SetLimit(device, full_bytes, options.fraction);
  return id;
}

void State::RestoreDrain(DeviceId id, DeviceDrain drain) {
  StateEditor editor(*this);
  editor.SetDrain(*editor.FindDevice(id), std::move(drain));
}

void State::SetHost(uint32_t node, const HostNeed& limit) {
  auto machine = FindMachine(machines_, node);
  if (machine != machines_.end()) machine->limit = limit;
}

void State::RestoreJob(Job job) {
  StateEditor editor(*this);
  // AddJob must not see ranks that are not booked. PlaceJob books them.
  Ranks ranks = job.ranks;
  job.ranks.clear();
  Job& added = editor.AddJob(std::move(job));
  editor.PlaceJob(added, std::move(ranks));
}

void State::RestoreVersion(Version version) {
  StateEditor editor(*this);
  const std::optional<DeviceId> device = version.device;
  // PlaceVersion below sets it again and books the bytes.
  version.device.reset();
  // Requests are numbered anew in the order of the rows.
  if (MayHoldBytes(version.state)) version.request = editor.NextRequest();
  Version& added = editor.AddVersion(std::move(version));
  if (device) editor.PlaceVersion(added, *device);
}

void State::RestoreReservation(TenantReservation reservation) {
  // The first step begins it again, if its time has come.
  reservation.begun = false;
  StateEditor(*this).AddReservation(std::move(reservation));
}

void State::ForgetJob(JobId id) {
  const Job* job = FindJob(id);
  // A job that has not ended may still start or hold devices.
  if (job != nullptr && IsEnded(job->state)) StateEditor(*this).RemoveJob(id);
}

const Job* State::FindJob(JobId id) const { return jobs_.Find(id); }

const Version* State::FindVersion(VersionId id) const {
  auto it = versions_.find(id);
  return it == versions_.end() ? nullptr : &it->second;
}

const Device* State::FindDevice(DeviceId id) const { return devices_.Find(id); }

const Device* State::FindDevice(absl::string_view name) const {
  for (const auto& [id, device] : devices_) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

bool State::IsLiveAttempt(AttemptRef attempt) const {
  const Job* job = FindJob(attempt.job);
  return job != nullptr && job->attempt == attempt.number && IsLive(job->state);
}

bool State::RunsOn(AttemptRef attempt, DeviceId device) const {
  return IsLiveAttempt(attempt) && FindJob(attempt.job)->RunsOn(device);
}

const Device* State::StrayDevice(JobId job) const {
  // The set is ordered by job and attempt, and 0 is before every attempt.
  auto it = strays_.lower_bound({{job, 0}, DeviceId()});
  if (it == strays_.end() || it->first.job != job) return nullptr;
  return FindDevice(it->second);
}

std::optional<JobId> State::DueJob(absl::Time now) const {
  if (wakes_.empty() || wakes_.begin()->first > now) return std::nullopt;
  return wakes_.begin()->second;
}

std::optional<JobId> State::JobAtLimit(absl::Time now) const {
  if (NextLimit() > now) return std::nullopt;
  return limits_.begin()->second;
}

absl::Time State::NextLimit() const {
  return limits_.empty() ? absl::InfiniteFuture() : limits_.begin()->first;
}

std::optional<DeviceId> State::CooledDevice(absl::Time now) const {
  if (cooling_.empty() || cooling_.begin()->first > now) return std::nullopt;
  return cooling_.begin()->second;
}

std::optional<JobId> State::JobWithDueStanding(absl::Time now) const {
  if (NextStandingChange() > now) return std::nullopt;
  return standing_changes_.begin()->second;
}

absl::Time State::NextStandingChange() const {
  return standing_changes_.empty() ? absl::InfiniteFuture()
                                   : standing_changes_.begin()->first;
}

}  // namespace gpupool::scheduler
