#include "server/control/upkeep/usage_meter.h"

#include <algorithm>
#include <utility>

#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "scheduler/state/device.h"
#include "server/control/devices/device_board.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kBetweenCharges = absl::Seconds(10);
constexpr char kNobody[] = "default";  // owner of models that no job has made

int64_t HourOf(absl::Time time) {
  return absl::ToInt64Hours(
      absl::Floor(time - absl::UnixEpoch(), absl::Hours(1)));
}

absl::Time StartOf(int64_t hour) {
  return absl::UnixEpoch() + absl::Hours(hour);
}

UsageSums Scaled(const UsageSums& sums, double by) {
  return {sums.device_seconds * by, sums.byte_seconds * by, sums.joules * by,
          sums.metered_seconds * by};
}

}  // namespace

// Returns who pays for a served version: the tenant of the job that made it.
UsageMeter::Holder UsageMeter::HolderOf(const scheduler::Version& version,
                                        Transaction& transaction) {
  Holder holder{.tenant = kNobody,
                .model = version.model,
                .activity = v1::SERVING,
                .bytes = version.bytes};
  const v1::ModelVersion* row =
      transaction.ledger().FindVersion(version.id.value());
  if (row == nullptr) return holder;
  holder.tenant = row->tenant();
  if (!holder.tenant.empty() || row->job_id() == 0) return holder;
  const JobRow* active = transaction.ledger().FindJob(row->job_id());
  if (active != nullptr) {
    holder.tenant = active->job.spec().tenant();
  } else if (const auto job = transaction.store().GetJob(row->job_id());
             job.ok()) {
    holder.tenant = job->spec().tenant();
  }
  return holder;
}

// Returns the holders from now on. They are charged at the next change, so that
// a change never charges the wrong holder.
UsageMeter::Meter UsageMeter::Read(const scheduler::Device& device,
                                   Transaction& transaction) {
  Meter meter{.since = transaction.now()};
  for (scheduler::JobId id : device.jobs) {
    const JobRow* row = transaction.ledger().FindJob(id.value());
    const scheduler::Job* job = transaction.ledger().state.FindJob(id);
    if (row == nullptr || job == nullptr) continue;
    const v1::JobSpec& spec = row->job.spec();
    meter.holders.push_back({spec.tenant(), PublishedModelName(spec),
                             v1::TRAINING, id.value(), job->bytes});
  }
  meter.jobs = meter.holders.size();
  for (scheduler::VersionId id : device.versions) {
    const scheduler::Version* version =
        transaction.ledger().state.FindVersion(id);
    if (version == nullptr) continue;
    meter.holders.push_back(HolderOf(*version, transaction));
  }
  return meter;
}

void UsageMeter::ChargeDevice(const scheduler::Device& device,
                              const Meter& meter, const Energy& energy,
                              Transaction& transaction) {
  const absl::Time now = transaction.now();
  const double seconds = absl::ToDoubleSeconds(now - meter.since);
  if (seconds <= 0 || meter.holders.empty()) return;
  // Device time and energy go to the jobs in equal parts, and to models only
  // where no job runs. Bytes go to every holder.
  const size_t sharing = meter.jobs > 0 ? meter.jobs : meter.holders.size();
  const double part = 1 / static_cast<double>(sharing);
  for (size_t i = 0; i < meter.holders.size(); ++i) {
    const Holder& holder = meter.holders[i];
    UsageSums sums;
    sums.byte_seconds = seconds * static_cast<double>(holder.bytes);
    if (i < sharing) {
      sums.device_seconds = seconds * part;
      sums.joules = energy.joules * part;
      sums.metered_seconds = std::min(energy.seconds, seconds) * part;
    }
    // A period may reach over the full hour: each hour gets its part.
    for (absl::Time at = meter.since; at < now;) {
      const int64_t hour = HourOf(at);
      const absl::Time to = std::min(now, StartOf(hour + 1));
      transaction.batch()
          .add_usage[{hour, holder.tenant, holder.model, device.kind,
                      holder.activity, holder.job}] +=
          Scaled(sums, absl::ToDoubleSeconds(to - at) / seconds);
      at = to;
    }
  }
}

void UsageMeter::Charge(Transaction& transaction, DeviceBoard& board) {
  const absl::Time now = transaction.now();
  // The second condition ends the wait early when the clock was set back.
  const bool all = now >= next_ || next_ - now > kBetweenCharges;
  if (all) next_ = now + kBetweenCharges;
  for (const auto& [id, device] : transaction.ledger().state.devices()) {
    if (!all && !transaction.changed_devices().contains(id)) continue;
    const Energy energy = board.TakeEnergy(device.name);
    const auto meter = meters_.find(id);
    if (meter != meters_.end()) {
      ChargeDevice(device, meter->second, energy, transaction);
    }
    meters_[id] = Read(device, transaction);
  }
}

}  // namespace gpupool::server
