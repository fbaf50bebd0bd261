#include "server/config.h"

#include <utility>

#include "engine/base/check.h"
#include "scheduler/text/queue_text.h"
#include "server/settings.h"

namespace gpupool::server {

Config::Config() {
  for (const Setting& setting : Settings()) {
    if (setting.initial.empty()) continue;
    GPUPOOL_CHECK(setting.kind.set(setting.initial, this).ok());
  }
}

scheduler::QueuePolicy SchedulingOf(const Config& config) {
  scheduler::QueuePolicy policy = config.scheduling;
  policy.yields_to_serving = config.serving_target_delay > absl::ZeroDuration();
  auto queues = scheduler::MakeQueues(config.queues, policy);
  GPUPOOL_CHECK(queues.ok());  // they were checked when set
  policy.queues = *std::move(queues);
  return policy;
}

}  // namespace gpupool::server
