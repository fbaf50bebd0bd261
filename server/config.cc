#include "server/config.h"

#include <arpa/inet.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <ios>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "scheduler/state/queue_text.h"
#include "scheduler/state/tenant_text.h"
#include "server/device_list.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kTiB = uint64_t{1} << 40;

absl::Status SetText(absl::string_view value, std::string* field) {
  if (value.empty()) return absl::InvalidArgumentError("must not be empty");
  *field = std::string(value);
  return absl::OkStatus();
}

absl::Status SetBytes(absl::string_view value, uint64_t least, uint64_t most,
                      uint64_t* field) {
  ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(value));
  if (bytes < least || bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be ", least, " .. ", most, " bytes"));
  }
  *field = bytes;
  return absl::OkStatus();
}

template <typename Integer>
absl::Status SetInteger(absl::string_view value, uint32_t least, uint32_t most,
                        Integer* field) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < least || number > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a whole number ", least, " .. ", most));
  }
  *field = static_cast<Integer>(number);
  return absl::OkStatus();
}

absl::Status SetPort(absl::string_view value, uint16_t* field) {
  return SetInteger(value, 0, 65535, field);
}

absl::Status SetDevices(absl::string_view value, Config* config) {
  RETURN_IF_ERROR(ParseDeviceList(value).status());
  config->devices = std::string(value);
  return absl::OkStatus();
}

absl::Status SetListen(absl::string_view value, Config* config) {
  unsigned char address[sizeof(in6_addr)];
  const std::string text(value);
  if (inet_pton(AF_INET, text.c_str(), address) != 1 &&
      inet_pton(AF_INET6, text.c_str(), address) != 1) {
    return absl::InvalidArgumentError(
        "must be an IP address such as 127.0.0.1, 0.0.0.0 or ::1");
  }
  config->listen = text;
  return absl::OkStatus();
}

absl::Status SetLogLevel(absl::string_view value, Config* config) {
  for (const char* level : {"debug", "info", "warning", "error"}) {
    if (value != level) continue;
    config->log_level = level;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be debug, info, warning or error");
}

absl::Status SetOrder(absl::string_view value, Config* config) {
  ASSIGN_OR_RETURN(config->scheduling.order, scheduler::ParseOrder(value));
  return absl::OkStatus();
}

absl::Status SetTenants(absl::string_view value, Config* config) {
  ASSIGN_OR_RETURN(config->scheduling.tenants,
                   scheduler::ParseTenantShares(value));
  return absl::OkStatus();
}

absl::Status SetPlacement(absl::string_view value, Config* config) {
  ASSIGN_OR_RETURN(config->scheduling.placement,
                   scheduler::ParsePlacementRule(value));
  return absl::OkStatus();
}

absl::Status SetQueues(absl::string_view value, Config* config) {
  RETURN_IF_ERROR(scheduler::ParseQueues(value, {}).status());
  config->queues = std::string(value);
  return absl::OkStatus();
}

absl::Status SetHysteresis(absl::string_view value, Config* config) {
  double factor = 0;
  if (!absl::SimpleAtod(value, &factor) || !(factor >= 1 && factor <= 1000)) {
    return absl::InvalidArgumentError("must be a number 1 .. 1000");
  }
  config->scheduling.hysteresis = factor;
  return absl::OkStatus();
}

absl::Status SetServingTargetDelay(absl::string_view value, Config* config) {
  double seconds = 0;
  if (!absl::SimpleAtod(value, &seconds) || !(seconds >= 0 && seconds <= 600)) {
    return absl::InvalidArgumentError(
        "must be a number of seconds 0 .. 600, as in 0.5");
  }
  config->serving_target_delay = absl::Seconds(seconds);
  config->scheduling.yields_to_serving = seconds > 0;
  return absl::OkStatus();
}

constexpr uint32_t kDay = 86400;

absl::Status SetSeconds(absl::string_view value, uint32_t least, uint32_t most,
                        absl::Duration* field) {
  uint32_t seconds = 0;
  RETURN_IF_ERROR(SetInteger(value, least, most, &seconds));
  *field = absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::Status SetDiskReserve(absl::string_view value, Config* config) {
  return SetBytes(value, 0, kTiB, &config->disk_reserve_bytes);
}

absl::Status SetKeepJobs(absl::string_view value, Config* config) {
  return SetInteger(value, 0, UINT32_MAX, &config->keep_jobs);
}

absl::Status SetKeepJobEvents(absl::string_view value, Config* config) {
  return SetInteger(value, 0, UINT32_MAX, &config->keep_job_events);
}

std::string Normal(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"_", "-"}});
}

// " at line 3", from 1.
std::string At(const YAML::Mark& mark) {
  return absl::StrCat(" at line ", mark.line + 1);
}

absl::Status Apply(const YAML::Node& key, const YAML::Node& value,
                   Config* config) {
  if (!key.IsScalar() || !value.IsScalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("every line must be \"name: value\"", At(key.Mark())));
  }
  const std::string name = Normal(key.Scalar());
  const auto& settings = Settings();
  const auto setting =
      std::find_if(settings.begin(), settings.end(),
                   [&](const Setting& s) { return name == s.name; });
  if (setting == settings.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown name \"", key.Scalar(), "\"", At(key.Mark()),
                     "; gpupoold --help lists the names"));
  }
  const absl::Status status = setting->set(value.Scalar(), config);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is \"", value.Scalar(), "\"", At(value.Mark()), ": ",
                   std::string(status.message())));
}

absl::Status ApplyAll(const YAML::Node& root, Config* config) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) {
    return absl::InvalidArgumentError("the file must hold \"name: value\"");
  }
  for (const auto& entry : root) {
    RETURN_IF_ERROR(Apply(entry.first, entry.second, config));
  }
  return absl::OkStatus();
}

// Of the scheduler.
std::vector<Setting> SchedulingSettings() {
  using View = absl::string_view;
  return {
      {"order", "ORDER",
       "fifo: first come; priority: the same, and running jobs of lower "
       "priority "
       "give way; easy: backfill; fair: the tenant that has had least; las, "
       "srs: least attained service, shortest "
       "remaining first, and running jobs give way; default fifo",
       SetOrder},
      {"tenants", "SHARES",
       "weights, limits and guarantees of tenants, as "
       "research:weight=3,guaranteed=4;research.vision:most=2",
       SetTenants},
      {"queues", "QUEUES",
       "queues beside `default`, or with it, each with an order of its own, as "
       "short:order=las,rank=10,preempts=yes;big:devices=cuda:0+cuda:1,most=2",
       SetQueues},
      {"usage-half-life", "SECONDS",
       "what tenants have had counts half as much after this time, with "
       "--order fair; default 604800, a week",
       [](View v, Config* c) {
         return SetSeconds(v, 0, 366 * kDay, &c->scheduling.usage_half_life);
       }},
      {"placement", "RULE",
       "where a job starts when several devices would do: spread: where the "
       "fewest others run; best-fit: where the least is left; pack: where it "
       "spoils the least for the jobs that usually come; default spread",
       SetPlacement},
      {"preempt-hysteresis", "FACTOR",
       "a running job gives way when it stands so many times behind the one "
       "that waits; default 2",
       SetHysteresis},
      {"min-run", "SECONDS",
       "a job gives way only after it has run for so long since its start; "
       "default 30",
       [](View v, Config* c) {
         return SetSeconds(v, 0, kDay, &c->scheduling.min_run);
       }},
      {"serving-target-delay", "SECONDS",
       "training leaves a device where requests to a model wait for longer, "
       "and gives its bytes to models that are to be loaded; default 0.5; 0: "
       "it never does",
       SetServingTargetDelay},
      {"grow-after", "SECONDS",
       "an elastic job takes devices that have been free for so long, and for "
       "ten times what a restart costs; default 60",
       [](View v, Config* c) {
         return SetSeconds(v, 0, kDay, &c->scheduling.grow_after);
       }},
      {"restart-cost", "SECONDS",
       "what stopping and resuming a job costs, until it has been measured; "
       "default 60",
       [](View v, Config* c) {
         return SetSeconds(v, 0, kDay, &c->scheduling.restart_cost);
       }},
  };
}

std::vector<Setting> GeneralSettings() {
  using View = absl::string_view;
  return {
      {"devices", "LIST",
       "cuda: all GPUs; cuda:0,2: the GPUs with index 0 and 2; cpu:2: two "
       "virtual CPU devices, a count and no index; mixed, as in "
       "cuda:0,1,cpu:1; "
       "auto: all GPUs and one CPU device, or cpu:2 where there is no GPU; "
       "default auto",
       SetDevices},
      {"device-memory", "BYTES",
       "limit of each device, as in 2GiB; default what the GPU has, or half "
       "the machine's memory, divided (a quarter beside GPUs, which a CPU "
       "device never exceeds)",
       [](View v, Config* c) {
         return SetBytes(v, kMiB, 64 * kTiB, &c->device_memory_bytes);
       }},
      {"state-dir", "DIR", "everything that is stored; default gpupool-state",
       [](View v, Config* c) { return SetText(v, &c->state_dir); }},
      {"listen", "ADDRESS", "of all ports; default 127.0.0.1", SetListen},
      {"grpc-port", "PORT", "default 8001; 0 takes any free port",
       [](View v, Config* c) { return SetPort(v, &c->grpc_port); }},
      {"http-port", "PORT", "default 8000; 0 takes any free port",
       [](View v, Config* c) { return SetPort(v, &c->http_port); }},
      {"metrics-port", "PORT", "default 8002; 0 takes any free port",
       [](View v, Config* c) { return SetPort(v, &c->metrics_port); }},
      {"port-file", "FILE",
       "gets the real ports as JSON once everything serves",
       [](View v, Config* c) { return SetText(v, &c->port_file); }},
      {"log-level", "LEVEL", "debug, info, warning or error; default info",
       SetLogLevel},
      {"worker-binary", "FILE", "default gpupool-worker beside gpupoold",
       [](View v, Config* c) { return SetText(v, &c->worker_binary); }},
      {"cuda-lib-dir", "DIR",
       "folder of NVIDIA's libraries, or several with colons between them; "
       "default where the system keeps them",
       [](View v, Config* c) { return SetText(v, &c->cuda_lib_dir); }},
  };
}

std::vector<Setting> LimitSettings() {
  using View = absl::string_view;
  return {
      {"disk-reserve", "BYTES", "for a full disk; default 64MiB; 0: none",
       SetDiskReserve},
      {"keep-jobs", "COUNT", "ended jobs kept; default 100000", SetKeepJobs},
      {"keep-job-events", "COUNT", "of so many of those; default 10000",
       SetKeepJobEvents},
      {"dataset-limit", "BYTES", "largest dataset; default 8GiB",
       [](View v, Config* c) {
         return SetBytes(v, 1, 64 * kTiB, &c->dataset_limit_bytes);
       }},
      {"message-limit", "BYTES", "largest gRPC message; default 64MiB",
       [](View v, Config* c) {
         return SetBytes(v, 2 * kMiB, 1024 * kMiB, &c->message_limit_bytes);
       }},
      {"event-queue", "COUNT", "bound of the control queue; default 4096",
       [](View v, Config* c) {
         return SetInteger(v, 16, 1 << 20, &c->event_queue_size);
       }},
      {"watch-limit", "COUNT", "open watch streams; default 1024",
       [](View v, Config* c) {
         return SetInteger(v, 1, 1 << 20, &c->watch_limit);
       }},
      {"slots", "COUNT", "batches in flight on each worker; default 64",
       [](View v, Config* c) {
         return SetInteger(v, 1, 1024, &c->slot_count);
       }},
      {"slot-bytes", "BYTES", "largest batch in bytes; default 4MiB",
       [](View v, Config* c) {
         return SetBytes(v, 4096, 1024 * kMiB, &c->slot_bytes);
       }},
      {"drain-grace", "SECONDS",
       "how long SIGTERM waits for running steps; default 30",
       [](View v, Config* c) {
         return SetSeconds(v, 1, 3600, &c->drain_grace);
       }},
      {"hang-timeout", "SECONDS",
       "kill a worker whose step takes longer than this and than 20 usual "
       "ones; 0: never; default 60",
       [](View v, Config* c) {
         return SetSeconds(v, 0, kDay, &c->hang_timeout);
       }},
  };
}

std::vector<Setting> AllSettings() {
  std::vector<Setting> settings = GeneralSettings();
  for (const auto& more : {LimitSettings(), SchedulingSettings()}) {
    settings.insert(settings.end(), more.begin(), more.end());
  }
  return settings;
}

}  // namespace

scheduler::QueuePolicy SchedulingOf(const Config& config) {
  scheduler::QueuePolicy policy = config.scheduling;
  auto queues = scheduler::ParseQueues(config.queues, policy);
  GPUPOOL_CHECK(queues.ok());  // SetQueues has looked at it
  policy.queues = *std::move(queues);
  return policy;
}

const std::vector<Setting>& Settings() {
  static const auto& settings = *new std::vector<Setting>(AllSettings());
  return settings;
}

absl::Status ReadConfigFile(const std::string& path, Config* config) {
  absl::Status status;
  try {
    status = ApplyAll(YAML::LoadFile(path), config);
  } catch (const YAML::BadFile&) {
    status = absl::NotFoundError("cannot be read");
  } catch (const std::ios_base::failure&) {  // a folder
    status = absl::InvalidArgumentError("cannot be read; is it a file?");
  } catch (const YAML::Exception& error) {
    status = absl::InvalidArgumentError(error.what());
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("configuration file ", path, ": ",
                                   std::string(status.message())));
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  struct Suffix {
    absl::string_view name;
    double factor;
  };
  constexpr Suffix kSuffixes[] = {{"KiB", 1024.0},
                                  {"MiB", 1024.0 * 1024},
                                  {"GiB", 1024.0 * 1024 * 1024},
                                  {"TiB", 1024.0 * 1024 * 1024 * 1024}};
  double factor = 1;
  absl::string_view number = text;
  for (const Suffix& suffix : kSuffixes) {
    if (!absl::EndsWith(text, suffix.name)) continue;
    factor = suffix.factor;
    number.remove_suffix(suffix.name.size());
  }
  double value = 0;
  const bool whole = factor == 1;
  uint64_t bytes = 0;
  if (whole && absl::SimpleAtoi(text, &bytes)) return bytes;
  if (!whole && absl::SimpleAtod(number, &value) && std::isfinite(value) &&
      value >= 0 && value * factor < 9.2e18) {
    return static_cast<uint64_t>(value * factor);
  }
  return absl::InvalidArgumentError(
      "must be a number of bytes, with KiB, MiB, GiB or TiB if you like");
}

}  // namespace gpupool::server
