#include "server/control/recovery.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "scheduler/state/device.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"
#include "server/control/calls/control_options.h"
#include "server/control/devices/reservation_requests.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

constexpr char kReports[] = "reports/";
constexpr int kPage = 500;
constexpr size_t kMostEnded = 2000;  // limit of ended jobs that are read

std::string KindOf(const std::string& name) {
  return name.substr(0, name.find(':'));
}

// Sets the ranks of a live attempt. They stay empty when one of its devices is
// gone. They are not returned, because g++ 14 warns falsely of such a move.
absl::Status RecoverRanks(const Store& store, const v1::Job& job,
                          const scheduler::State& state,
                          scheduler::Ranks& ranks) {
  std::vector<std::string> names(job.devices().begin(), job.devices().end());
  if (names.empty()) names.push_back(job.device());
  std::vector<scheduler::DeviceId> devices;
  for (const std::string& name : names) {
    const scheduler::Device* device = state.FindDevice(name);
    if (device == nullptr) return absl::OkStatus();
    devices.push_back(device->id);
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    ASSIGN_OR_RETURN(const uint64_t end,
                     store.GetCounter(RankCounter(job.id(), i)));
    scheduler::Rank& rank = ranks.emplace_back();
    rank.device = devices[i];
    if (end > 0) rank.end = static_cast<scheduler::Outcome>(end);
  }
  return absl::OkStatus();
}

// Counts the job's past usage for its tenant.
void RecoverUsage(const v1::Job& job, absl::Time now, Ledger& ledger) {
  if (job.run_seconds() <= 0) return;
  ledger.state.Remember(
      {.tenant = job.spec().tenant(),
       .kind = KindOf(job.device()),
       // For an elastic job its last number of devices stands for all.
       .devices = std::max(DeviceCount(job.spec()),
                           static_cast<uint32_t>(job.devices_size())),
       .bytes = job.plan().training().peak(),
       .run = absl::Seconds(job.run_seconds()),
       .end = job.has_end_time() ? FromTimestamp(job.end_time()) : now},
      now);
}

// Adds the row and the scheduler's job. Counters of failures and of ranks' ends
// are outside of the row.
absl::Status RecoverJob(const Store& store, absl::Time now, v1::Job job,
                        Ledger& ledger) {
  const uint64_t id = job.id();
  ASSIGN_OR_RETURN(const uint64_t last, store.LastEventSequence(id));
  ASSIGN_OR_RETURN(const uint64_t failures,
                   store.GetCounter(absl::StrCat("failures/", id)));
  ASSIGN_OR_RETURN(const auto checkpoints, store.LoadCheckpoints(id));
  JobRow& row = ledger.AddJob(std::move(job));
  row.next_sequence = last + 1;
  row.queued_since = now;
  for (const v1::Checkpoint& checkpoint : checkpoints) {
    row.checkpoint_steps.push_back(checkpoint.step());
  }
  scheduler::Ranks ranks;
  RETURN_IF_ERROR(RecoverRanks(store, row.job, ledger.state, ranks));
  scheduler::Job restored = ToSchedulerJob(
      row.job, static_cast<uint32_t>(failures), std::move(ranks), now);
  for (const std::string& name : row.job.faulted_devices()) {
    const scheduler::Device* device = ledger.state.FindDevice(name);
    if (device != nullptr) restored.faults.push_back(device->id);
  }
  scheduler::JobSubmitted submitted = EventOf(row.job, ledger);
  restored.after_ok = std::move(submitted.after_ok);
  restored.after_any = std::move(submitted.after_any);
  // JobRehearsals knows whether one like it was tried.
  restored.untried =
      restored.state == scheduler::JobState::kQueued && restored.attempt == 0;
  const auto state = static_cast<v1::JobState>(restored.state);
  // ToSchedulerJob may have turned a live job into one that backs off.
  if (state != row.job.state()) {
    --ledger.job_counts[row.job.state()];
    ++ledger.job_counts[state];
    row.job.set_state(state);
  }
  ledger.state.RestoreJob(std::move(restored));
  RecoverUsage(row.job, now, ledger);
  return absl::OkStatus();
}

// Learns from ended jobs: their run times, their needs, and the usage of their
// tenants.
absl::Status RecoverHistory(const Store& store, absl::Time now,
                            Ledger& ledger) {
  v1::ListJobsRequest request;
  for (v1::JobState ended : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
    request.add_states(ended);
  }
  request.set_page_size(kPage);
  size_t seen = 0;  // newest first
  do {
    ASSIGN_OR_RETURN(const auto page, store.ListJobs(request));
    for (const v1::Job& job : page.jobs()) {
      RecoverUsage(job, now, ledger);
      if (job.state() != v1::SUCCEEDED || job.run_seconds() <= 0) continue;
      ledger.state.LearnRunTime(absl::Seconds(job.run_seconds()));
    }
    seen += page.jobs_size();
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && seen < kMostEnded);
  return absl::OkStatus();
}

// Adds the row and the scheduler's version. Counters of ended workers are
// outside of the row.
absl::Status RecoverVersion(const Store& store, v1::ModelVersion version,
                            Ledger& ledger) {
  v1::ModelVersion& row = ledger.AddVersion(std::move(version));
  ASSIGN_OR_RETURN(const uint64_t ends,
                   store.GetCounter(WorkerEndsCounter(row.id())));
  ASSIGN_OR_RETURN(const uint64_t last,
                   store.GetCounter(LastWorkerEndCounter(row.id())));
  scheduler::Version restored =
      ToSchedulerVersion(row, ledger.state.FindDevice(row.device()));
  restored.worker_ends = static_cast<uint32_t>(ends);
  if (ends > 0) {
    restored.last_worker_end =
        absl::FromUnixSeconds(static_cast<int64_t>(last));
  }
  // A job's version that was never ready may not have been rehearsed.
  const bool is_new = row.job_id() != 0 && restored.replaces_older;
  restored.suspected = (ends > 0 || is_new) &&
                       restored.state == scheduler::VersionState::kLoading &&
                       !restored.device;
  ledger.state.RestoreVersion(std::move(restored));
  return absl::OkStatus();
}

// Adds all rows; only those that were not cancelled reach the scheduler.
absl::Status RecoverReservations(const Store& store, Ledger& ledger) {
  ASSIGN_OR_RETURN(auto rows, store.LoadReservations());
  for (v1::Reservation& row : rows) {
    if (!row.has_cancel_time()) {
      ledger.state.RestoreReservation(
          ToSchedulerReservation(row, ledger.state));
    }
    const uint64_t id = row.id();
    ledger.reservations[id] = std::move(row);
  }
  return absl::OkStatus();
}

// Connects each pair once; links are symmetric.
void ConnectDevices(const std::vector<ControlDevice>& devices,
                    scheduler::State& state) {
  for (size_t a = 0; a < devices.size(); ++a) {
    const std::vector<scheduler::Link>& links = devices[a].links;
    for (size_t b = 0; b < std::min(a, links.size()); ++b) {
      state.Connect(scheduler::DeviceId(a), scheduler::DeviceId(b), links[b]);
    }
  }
}

}  // namespace

absl::Status Recover(const ControlOptions& options, const Store& store,
                     absl::Time now, Ledger& ledger) {
  ledger.keeps_tenants_apart = options.keeps_tenants_apart;
  ASSIGN_OR_RETURN(const auto fractions, store.LoadMemoryFractions());
  ASSIGN_OR_RETURN(const auto drains, store.LoadDrains());
  for (const ControlDevice& device : options.devices) {
    const auto set = fractions.find(device.name);
    const scheduler::DeviceId id = ledger.state.AddDevice(
        device.name, KindOf(device.name), device.limit_bytes,
        {.fraction = set == fractions.end() ? 1 : set->second});
    const auto drain = drains.find(device.name);
    if (drain != drains.end()) {
      ledger.state.RestoreDrain(id, FromProto(drain->second));
    }
  }
  // After the devices, on which machines and links depend, and before the jobs,
  // which need the policy.
  ledger.state.SetHost(0, options.host);
  ConnectDevices(options.devices, ledger.state);
  ledger.state.SetPolicy(options.scheduling);
  RETURN_IF_ERROR(RecoverReservations(store, ledger));
  RETURN_IF_ERROR(RecoverHistory(store, now, ledger));
  ASSIGN_OR_RETURN(ledger.job_counts, store.CountJobs());
  ASSIGN_OR_RETURN(auto versions, store.LoadVersions());
  for (auto& version : versions) {
    RETURN_IF_ERROR(RecoverVersion(store, std::move(version), ledger));
  }
  // By rising id, since a job comes after those that it waits for.
  ASSIGN_OR_RETURN(auto jobs, store.LoadAllActiveJobs());
  for (auto& job : jobs) {
    RETURN_IF_ERROR(RecoverJob(store, now, std::move(job), ledger));
  }
  ASSIGN_OR_RETURN(const auto sequences, store.LoadCounters(kReports));
  for (const auto& [name, sequence] : sequences) {
    ledger.report_sequences[name.substr(sizeof(kReports) - 1)] = sequence;
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
