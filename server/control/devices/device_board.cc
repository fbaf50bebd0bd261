#include "server/control/devices/device_board.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/state/device.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/state/state.h"
#include "server/control/devices/bench_rates.h"
#include "server/control/records/job_queues.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"

namespace gpupool::server {
namespace {

using scheduler::AttemptRef;
using scheduler::JobId;

// Number of jobs at the head of the queue with a waiting reason.
constexpr size_t kReasons = 1000;

// Longest time for which one reading of the power counts.
constexpr absl::Duration kLongestReading = absl::Seconds(5);

// Returns "cuda" for "cuda:0".
std::string KindOf(const std::string& name) {
  return name.substr(0, name.find(':'));
}

AttemptRef RefOf(const worker::v1::RunningAttempt& running) {
  return {JobId(running.job_id()), running.attempt()};
}

// Updates the map to `wanted`. A new attempt is not missing yet.
void KeepKnown(const std::set<AttemptRef>& wanted,
               std::map<AttemptRef, absl::Time>& since) {
  std::erase_if(since,
                [&](const auto& item) { return !wanted.contains(item.first); });
  for (const AttemptRef& attempt : wanted) {
    since.emplace(attempt, absl::InfiniteFuture());
  }
}

// Publishes the links once, since they never change.
void PublishLinks(const scheduler::State& state, scheduler::DeviceId id,
                  v1::Device& device) {
  if (state.topology().empty() || device.links_size() > 0) return;
  for (const auto& [other_id, other] : state.devices()) {
    const scheduler::Link link = state.topology().Between(id, other_id);
    if (link == scheduler::Link::kUnknown) continue;
    v1::DeviceLink& added = *device.add_links();
    added.set_device(other.name);
    added.set_link(std::string(scheduler::ToString(link)));
  }
}

// Returns the state of a device with a worker.
v1::DeviceState OpenState(const scheduler::State& state,
                          const scheduler::Device& device) {
  if (device.drain) {
    const bool saves = std::any_of(
        state.saving().begin(), state.saving().end(),
        [&](JobId id) { return state.jobs().at(id).SavesFrom(device.id); });
    return device.jobs.empty() && device.stray_attempts.empty() && !saves
               ? v1::DEVICE_DRAINED
               : v1::DEVICE_DRAINING;
  }
  return state.draining() ? v1::DEVICE_DRAINING : v1::DEVICE_READY;
}

void PublishReservations(const scheduler::State& state, scheduler::DeviceId id,
                         v1::Device& device) {
  device.clear_reservations();
  for (const auto* reservation : state.reservations().Of(id)) {
    v1::DeviceReservation& added = *device.add_reservations();
    added.set_name(reservation->name);
    added.set_tenant(reservation->tenant);
    *added.mutable_start_time() = ToTimestamp(reservation->start);
    *added.mutable_end_time() = ToTimestamp(reservation->end);
    added.set_active(reservation->begun);
  }
}

// Returns whether the device is reserved for another tenant now.
bool IsKeptFrom(const std::string& tenant, const v1::Device& device) {
  return !tenant.empty() &&
         std::any_of(device.reservations().begin(), device.reservations().end(),
                     [&](const v1::DeviceReservation& reservation) {
                       return reservation.active() &&
                              !scheduler::TenantReservation{
                                  .tenant = reservation.tenant()}
                                   .Takes(tenant);
                     });
}

}  // namespace

void DeviceBoard::AddDevice(const std::string& name, uint64_t limit_bytes,
                            uint32_t threads) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[name];
  entry.usable_bytes = limit_bytes;
  v1::Device& device = entry.device;
  device.set_memory_fraction(1);
  device.set_name(name);
  device.set_kind(KindOf(name));
  device.set_state(v1::DEVICE_STARTING);
  device.set_limit_bytes(limit_bytes);
  device.set_threads(threads);
}

// Takes the facts of the worker's Hello. Attempts are unknown until the first
// heartbeat.
void DeviceBoard::SetReady(const std::string& name,
                           const worker::v1::HelloReply& reply) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(name);
  if (it == entries_.end()) return;
  v1::Device& device = it->second.device;
  device.set_state(v1::DEVICE_READY);
  device.clear_state_reason();
  device.set_description(reply.info().description());
  if (reply.info().threads() > 0) device.set_threads(reply.info().threads());
  if (reply.info().has_memory()) {
    *device.mutable_memory() = reply.info().memory();
  }
  if (reply.info().has_gpu()) {
    *device.mutable_gpu() = reply.info().gpu();
  } else {
    device.clear_gpu();
  }
  if (reply.info().has_peak_rates()) {
    *device.mutable_peak_rates() = reply.info().peak_rates();
  } else {
    device.clear_peak_rates();
  }
  device.set_worker_pid(reply.pid());
  it->second.running.clear();
  // The description may differ from the one that was measured.
  ShowMeasured(it->second);
}

void DeviceBoard::SetMeasured(const v1::DeviceBench& bench) {
  // Rates that were measured beside other work are lower than what the device
  // can do.
  if (bench.beside_work()) return;
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(bench.device());
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  entry.measured_on = bench.description();
  entry.measured_threads = bench.threads();
  entry.measured_rates = RatesOf(bench);
  ShowMeasured(entry);
}

// Another GPU may have the name since the measurements.
void DeviceBoard::ShowMeasured(Entry& entry) {
  v1::Device& device = entry.device;
  if (entry.measured_rates.has_value() &&
      entry.measured_on == device.description() &&
      entry.measured_threads == device.threads()) {
    *device.mutable_measured_rates() = *entry.measured_rates;
  } else {
    device.clear_measured_rates();
  }
}

void DeviceBoard::SetLost(const std::string& name, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(name);
  if (it == entries_.end()) return;
  v1::Device& device = it->second.device;
  // The pool reports a quarantine as DataLoss.
  device.set_state(absl::IsDataLoss(reason) ? v1::DEVICE_QUARANTINED
                                            : v1::DEVICE_LOST);
  device.set_state_reason(std::string(reason.message()));
  device.set_utilization(0);
  device.set_worker_pid(0);
  device.clear_readings();
  it->second.running.clear();
}

void DeviceBoard::PublishDevice(const Ledger& ledger,
                                const scheduler::Device& device, Entry& entry) {
  entry.device.set_limit_bytes(device.full_bytes);
  entry.device.set_memory_fraction(device.fraction);
  entry.usable_bytes = device.limit_bytes;
  entry.device.set_committed_bytes(device.committed_bytes());
  entry.device.clear_job_ids();
  entry.device.clear_versions();
  std::set<AttemptRef> expected;
  for (JobId id : device.jobs) {
    entry.device.add_job_ids(id.value());
    expected.insert({id, ledger.state.jobs().at(id).attempt});
  }
  KeepKnown(expected, entry.expected);
  std::set<AttemptRef> stopping;
  for (const auto& [attempt, bytes] : device.stray_attempts) {
    stopping.insert(attempt);
  }
  KeepKnown(stopping, entry.stopping);
  for (scheduler::VersionId id : device.versions) {
    const scheduler::Version& version = ledger.state.versions().at(id);
    entry.device.add_versions(absl::StrCat(version.model, "/", version.number));
  }
  PublishLinks(ledger.state, device.id, entry.device);
  PublishReservations(ledger.state, device.id, entry.device);
  entry.device.set_consecutive_faults(device.faults);
  entry.device.set_last_fault(device.fault_text);
  if (device.cools()) {
    *entry.device.mutable_cools_until() = ToTimestamp(device.cools_until);
  } else {
    entry.device.clear_cools_until();
  }
  entry.device.clear_drain();
  if (device.drain) {
    v1::DeviceDrain& drain = *entry.device.mutable_drain();
    drain.set_lets_finish(device.drain->lets_finish);
    drain.set_reason(device.drain->reason);
  }
  const v1::DeviceState state = entry.device.state();
  // The other states come from the worker's connection, which only SetReady and
  // SetLost know.
  if (state == v1::DEVICE_READY || state == v1::DEVICE_DRAINING ||
      state == v1::DEVICE_DRAINED) {
    entry.device.set_state(OpenState(ledger.state, device));
  }
}

bool DeviceBoard::ReasonsAreYoung(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  // Reasons for a short queue are cheap, so they are always made anew. A clock
  // that was set back makes them old.
  return reasons_.size() == kReasons && now >= reasons_made_ &&
         now - reasons_made_ < kReasonsAge;
}

bool DeviceBoard::Publish(const Ledger& ledger, bool more_follows,
                          absl::Time now) {
  // The last state of a batch is always published with fresh reasons.
  const bool keep = more_follows && ReasonsAreYoung(now);
  absl::btree_map<JobId, std::string> reasons;
  // Before the lock, since reasons of a long queue take a while.
  if (!keep) reasons = scheduler::WaitingReasons(ledger.state, kReasons);
  absl::MutexLock lock(&mutex_);
  // A set, because a job with several ranks runs on several devices.
  std::set<JobId> live(ledger.state.saving().begin(),
                       ledger.state.saving().end());
  saving_.clear();
  for (JobId id : live) {
    saving_[id] =
        scheduler::WaitingReason(ledger.state, ledger.state.jobs().at(id));
  }
  for (const auto& [id, device] : ledger.state.devices()) {
    auto it = entries_.find(device.name);
    if (it == entries_.end()) continue;
    PublishDevice(ledger, device, it->second);
    live.insert(device.jobs.begin(), device.jobs.end());
  }
  live_attempts_ = live.size();
  if (!keep) {
    reasons_ = std::move(reasons);
    reasons_made_ = now;
  }
  draining_ = ledger.state.draining();
  policy_ = ledger.state.policy();
  queues_ = ledger.state.queues();
  restart_cost_ = ledger.state.restart_cost();
  return !keep;
}

// Reports attempts that have been missing on the worker for kPatience. `since`
// is InfiniteFuture while the attempt is there, and InfinitePast once it was
// reported.
void DeviceBoard::CollectAbsent(Entry::Attempts& attempts, const Entry& entry,
                                absl::Time now,
                                std::vector<Disagreement>& found) {
  for (auto& [attempt, since] : attempts) {
    if (entry.running.contains(attempt)) {
      since = absl::InfiniteFuture();
    } else if (since == absl::InfiniteFuture()) {
      since = now;
    } else if (now - since > kPatience && since != absl::InfinitePast()) {
      found.push_back({attempt, false});
      since = absl::InfinitePast();  // reported once
    }
  }
}

// Reports disagreements both ways: attempts that are missing on the worker, and
// attempts that only the worker has.
void DeviceBoard::CollectUnseen(Entry& entry, absl::Time now,
                                std::vector<Disagreement>& found) {
  CollectAbsent(entry.expected, entry, now, found);
  CollectAbsent(entry.stopping, entry, now, found);
  for (auto& [attempt, since] : entry.running) {
    // Patience starts when the daemon drops the attempt, not when it began.
    if (entry.expected.contains(attempt)) {
      since = now;
    } else if (now - since > kPatience && since != absl::InfinitePast()) {
      found.push_back({attempt, true});
      since = absl::InfinitePast();
    }
  }
}

std::vector<Disagreement> DeviceBoard::TakeHeartbeat(
    const std::string& name, const worker::v1::Heartbeat& heartbeat,
    absl::Time now) {
  std::vector<Disagreement> found;
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(name);
  if (it == entries_.end()) return found;
  Entry& entry = it->second;
  *entry.device.mutable_memory() = heartbeat.memory();
  entry.device.set_utilization(heartbeat.utilization());
  if (heartbeat.has_readings()) {
    *entry.device.mutable_readings() = heartbeat.readings();
    // The daemon counts the energy itself, from the power.
    entry.device.mutable_readings()->clear_energy_joules();
    if (heartbeat.readings().has_power_watts()) {
      MeterPower(heartbeat.readings().power_watts(), now, entry);
    }
  }
  std::map<AttemptRef, absl::Time> running;
  for (const auto& item : heartbeat.running()) {
    auto known = entry.running.find(RefOf(item));
    // The time at which an attempt was first seen stays with it.
    running[RefOf(item)] = known == entry.running.end() ? now : known->second;
  }
  entry.running = std::move(running);
  CollectUnseen(entry, now, found);
  mismatches_ += found.size();
  return found;
}

void DeviceBoard::MeterPower(double watts, absl::Time now, Entry& entry) {
  const absl::Duration since = now - entry.power_told;
  entry.power_told = now;
  v1::GpuReadings& readings = *entry.device.mutable_readings();
  readings.set_energy_joules(entry.joules_total);
  // The power over a longer gap is unknown.
  if (since <= absl::ZeroDuration() || since > kLongestReading) return;
  const double seconds = absl::ToDoubleSeconds(since);
  entry.energy.joules += watts * seconds;
  entry.energy.seconds += seconds;
  entry.joules_total += watts * seconds;
  readings.set_energy_joules(entry.joules_total);
}

Energy DeviceBoard::TakeEnergy(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(name);
  return it == entries_.end() ? Energy()
                              : std::exchange(it->second.energy, Energy());
}

bool DeviceBoard::Has(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(name);
}

v1::Device DeviceBoard::Find(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(name);
  return it == entries_.end() ? v1::Device() : it->second.device;
}

std::vector<v1::Device> DeviceBoard::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::Device> devices;
  for (const auto& [name, entry] : entries_) devices.push_back(entry.device);
  return devices;
}

std::vector<v1::DeviceFit> DeviceBoard::Fits(uint64_t bytes,
                                             const v1::JobSpec& spec) const {
  absl::MutexLock lock(&mutex_);
  const scheduler::Queues::Entry& waits_in =
      queues_.at(queues_.NumberOf(spec.queue()));
  const bool spares_cpu =
      scheduler::SparesCpu(spec.device(), waits_in.has_accelerators);
  std::vector<v1::DeviceFit> fits;
  for (const auto& [name, entry] : entries_) {
    const v1::Device& device = entry.device;
    const bool matches =
        scheduler::TakesDevice(spec.device(), name, device.kind()) &&
        !(spares_cpu && device.kind() == scheduler::kCpuKind) &&
        waits_in.queue.Lists(name, device.kind());
    v1::DeviceFit& fit = fits.emplace_back();
    fit.set_device(name);
    fit.set_limit_bytes(device.limit_bytes());
    // More may be committed than is usable, after the fraction was lowered.
    fit.set_free_bytes(entry.usable_bytes -
                       std::min(entry.usable_bytes, device.committed_bytes()));
    const bool is_free = spec.exclusive() ? device.committed_bytes() == 0
                                          : bytes <= fit.free_bytes();
    // An exclusive job needs an empty device, and its bytes must still fit.
    fit.set_fits_now(matches && is_free && bytes <= fit.free_bytes() &&
                     !IsKeptFrom(spec.tenant(), device));
    fit.set_fits_ever(matches && bytes <= device.limit_bytes());
  }
  return fits;
}

v1::ReconcileState DeviceBoard::Reconcile() const {
  absl::MutexLock lock(&mutex_);
  v1::ReconcileState state;
  state.set_mismatches_total(mismatches_);
  for (const auto& [name, entry] : entries_) {
    std::set<AttemptRef> all;
    for (const auto& [attempt, since] : entry.expected) all.insert(attempt);
    for (const auto& [attempt, since] : entry.running) all.insert(attempt);
    for (const AttemptRef& attempt : all) {
      v1::ReconcileState::Attempt& row = *state.add_attempts();
      row.set_job_id(attempt.job.value());
      row.set_attempt(attempt.number);
      row.set_device(name);
      row.set_in_store(entry.expected.contains(attempt));
      row.set_on_worker(entry.running.contains(attempt));
    }
  }
  return state;
}

uint64_t DeviceBoard::mismatches_total() const {
  absl::MutexLock lock(&mutex_);
  return mismatches_;
}

std::string DeviceBoard::WaitingReason(uint64_t job) const {
  absl::MutexLock lock(&mutex_);
  auto it = reasons_.find(JobId(job));
  return it == reasons_.end() ? "" : it->second;
}

std::string DeviceBoard::SavingReason(uint64_t job) const {
  absl::MutexLock lock(&mutex_);
  auto it = saving_.find(JobId(job));
  return it == saving_.end() ? "" : it->second;
}

v1::SchedulingPolicy DeviceBoard::Scheduling() const {
  absl::MutexLock lock(&mutex_);
  v1::SchedulingPolicy policy;
  policy.set_order(std::string(ToString(policy_.order)));
  policy.set_preempt_hysteresis(policy_.hysteresis);
  *policy.mutable_min_run() = ToProtoDuration(policy_.min_run);
  *policy.mutable_restart_cost() = ToProtoDuration(restart_cost_);
  for (uint32_t i = 0; i < queues_.size(); ++i) {
    *policy.add_queues() = ToProto(queues_.at(i));
  }
  return policy;
}

bool DeviceBoard::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

size_t DeviceBoard::live_attempts() const {
  absl::MutexLock lock(&mutex_);
  return live_attempts_;
}

bool DeviceBoard::WaitUntilIdle(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &DeviceBoard::Idle),
                                 timeout);
}

}  // namespace gpupool::server
