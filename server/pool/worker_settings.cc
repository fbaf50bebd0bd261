#include "server/pool/worker_settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/pool/worker_pool.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {

bool JoinsGroups(const PoolOptions& options, const PoolDevice& device) {
  const auto computes = [](const PoolDevice& one) {
    return one.name != kMetaDevice && one.name != kRehearsalDevice;
  };
  return computes(device) && std::count_if(options.devices.begin(),
                                           options.devices.end(), computes) > 1;
}

std::vector<std::string> WorkerArguments(const PoolOptions& options,
                                         const PoolDevice& device) {
  std::vector<std::string> arguments = {
      options.worker_binary,
      "--device",
      device.name,
      "--state-dir",
      options.state_dir,
      "--memory-limit-bytes",
      absl::StrCat(device.limit_bytes),
      "--threads",
      absl::StrCat(device.threads),
      "--plan-for",
      device.plan_for,
      "--orphan-seconds",
      absl::StrCat(absl::ToDoubleSeconds(options.orphan_timeout)),
      "--checkpoint-seconds",
      absl::StrCat(absl::ToDoubleSeconds(options.checkpoint_interval)),
      "--log-format",
      options.log_format,
      "--sandbox",
      options.sandbox};
  if (device.joins_groups) arguments.emplace_back("--joins-groups");
  if (!device.plan_facts.empty()) {
    arguments.insert(arguments.end(), {"--plan-facts", device.plan_facts});
  }
  if (!options.cuda_lib_dir.empty()) {
    arguments.insert(arguments.end(), {"--cuda-lib-dir", options.cuda_lib_dir});
  }
  return arguments;
}

absl::Status CheckWorkerHello(const worker::v1::HelloReply& hello,
                              const PoolDevice& device) {
  if (hello.protocol_version() != kWorkerProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the worker speaks protocol version ", hello.protocol_version(),
        ", this server ", kWorkerProtocolVersion, "; stop the old worker"));
  }
  if (hello.device() != device.name) {
    return absl::InternalError(absl::StrCat("the worker says that it owns ",
                                            hello.device(), ", not ",
                                            device.name));
  }
  return absl::OkStatus();
}

absl::Status CheckWorkerSettings(const worker::v1::HelloReply& hello,
                                 const PoolDevice& device) {
  const uint64_t limit = hello.info().limit_bytes();
  const uint32_t threads = hello.info().threads();
  const bool same = (device.limit_bytes == 0 || limit == device.limit_bytes) &&
                    threads == device.threads &&
                    (hello.joins_groups() || !device.joins_groups);
  if (same) return absl::OkStatus();
  const std::string difference = absl::StrCat(
      "it was started with a limit of ", limit, " bytes and ", threads,
      " threads, ", hello.joins_groups() ? "to join" : "to join no",
      " groups; configured are ", device.limit_bytes, " and ", device.threads,
      device.joins_groups ? ", to join" : ", to join no", " groups");
  if (hello.running().empty() && hello.loaded_version_ids().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the idle worker is replaced: ", difference));
  }
  spdlog::warn(
      "worker keeps its settings until it ends device={} reason=\"{}\"",
      device.name, difference);
  return absl::OkStatus();
}

}  // namespace gpupool::server
