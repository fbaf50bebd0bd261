#include "server/config.h"

#include <algorithm>
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

PartialOptions PartialOptionsOf(const Config& config) {
  PartialOptions options;
  options.keep = config.keep_uploads;
  options.most_files = config.upload_files;
  options.most_bytes = config.upload_bytes;
  if (config.upload_bytes == 0) {
    options.most_bytes = 4 * std::max(config.limits.dataset_bytes,
                                      config.limits.model_file_bytes);
  }
  return options;
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
