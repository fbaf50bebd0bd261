#include "server/control/records/job_queues.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/job.pb.h"
#include "scheduler/state/fair_share.h"
#include "scheduler/state/state.h"
#include "server/control/records/rows.h"

namespace gpupool::server {
namespace {

bool TakesJobsOf(const scheduler::Queue& queue, const std::string& tenant) {
  if (queue.tenants.empty()) return true;
  // A queue that takes a tenant takes all tenants below it.
  const auto path = scheduler::PathOf(tenant);
  return std::any_of(
      queue.tenants.begin(), queue.tenants.end(), [&](const auto& allowed) {
        return std::find(path.begin(), path.end(), allowed) != path.end();
      });
}

}  // namespace

absl::Status CheckQueue(const scheduler::Queues& queues,
                        const v1::JobSpec& spec) {
  if (!spec.queue().empty() && !queues.Has(spec.queue())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no queue \"", spec.queue(), "\"; there is ",
                     queues.Names(), ": see `gpupool queues`"));
  }
  const scheduler::Queue& queue =
      queues.at(queues.NumberOf(spec.queue())).queue;
  if (!TakesJobsOf(queue, spec.tenant())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "tenant \"", spec.tenant(), "\" may not submit to queue \"", queue.name,
        "\", which takes jobs of ", absl::StrJoin(queue.tenants, ", ")));
  }
  if (queue.most && DeviceCount(spec) > *queue.most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "never fits: needs ", DeviceCount(spec), " devices, jobs in queue \"",
        queue.name, "\" may use ", *queue.most,
        " at once; use fewer devices or another queue"));
  }
  return absl::OkStatus();
}

v1::Queue ToProto(const scheduler::Queues::Entry& entry) {
  const scheduler::Queue& queue = entry.queue;
  v1::Queue proto;
  proto.set_name(queue.name);
  proto.set_order(std::string(ToString(queue.order)));
  proto.set_preempt_hysteresis(queue.hysteresis);
  *proto.mutable_min_run() = ToProtoDuration(queue.min_run);
  proto.set_rank(queue.rank);
  proto.set_preempts(queue.preempts);
  for (const auto& device : queue.devices) proto.add_devices(device);
  if (queue.most) proto.set_most_devices(*queue.most);
  for (const auto& tenant : queue.tenants) proto.add_tenants(tenant);
  proto.set_waiting_jobs(entry.waiting_jobs);
  proto.set_running_jobs(entry.running_jobs);
  proto.set_held_devices(entry.held_devices);
  return proto;
}

std::vector<std::string> QueueWarnings(const scheduler::State& state) {
  std::vector<std::string> warnings;
  for (uint32_t i = 0; i < state.queues().size(); ++i) {
    const scheduler::Queues::Entry& entry = state.queues().at(i);
    const bool has_one = std::any_of(
        state.devices().begin(), state.devices().end(),
        [&](const auto& device) { return entry.MayUse(device.first); });
    if (has_one) continue;
    warnings.push_back(absl::StrCat(
        "queue '", entry.queue.name, "' may use ", DevicesText(entry.queue),
        ", none of which exists here: its jobs will not start"));
  }
  absl::btree_map<std::string, size_t> lost;
  for (const auto& [id, job] : state.jobs()) {
    // Jobs keep the name of their queue. They wait in the default queue until
    // it is configured again.
    if (job.queue_name.empty() || state.queues().Has(job.queue_name)) continue;
    ++lost[job.queue_name];
  }
  for (const auto& [name, jobs] : lost) {
    warnings.push_back(
        absl::StrCat("queue '", name, "' is no longer configured: ", jobs,
                     jobs == 1 ? " job" : " jobs", " of it wait in 'default'"));
  }
  return warnings;
}

}  // namespace gpupool::server
