#include "server/settings.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/nearest_name.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint32_t kHour = 3600;
constexpr uint32_t kDay = 24 * kHour;

// ResponseCache keeps answers of up to an eighth of its memory, and the
// smallest answer takes some 700 bytes.
constexpr uint64_t kLeastCacheBytes = 8 * kKiB;

// Defaults that other programs need too are members of their structs.
constexpr SlotRingOptions kRing = {};
using scheduler::QueuePolicy;
using tls::TlsFiles;

std::vector<Setting> DeviceSettings() {
  static constexpr char kGroup[] = "Devices and workers";
  return {
      {kGroup, "devices", DeviceListKind(In<&Config::devices>), "auto",
       "the devices of the pool: cuda: all GPUs; cuda:0,2: the GPUs with index "
       "0 and 2; cpu:2: two virtual CPU devices, a count and no index; mixed, "
       "as in cuda:0,1,cpu:1; auto: all GPUs and one CPU device, or cpu:2 "
       "where there is no GPU",
       "", "[Devices](#devices)"},
      {kGroup, "device-memory",
       BytesKind(In<&Config::device_memory_bytes>, kMiB, 64 * kTiB), "",
       "memory limit of each device; in a pool with GPUs a CPU device never "
       "gets more than its share",
       "a GPU's own memory, a CPU device's share of the machine's",
       "[Devices](#devices)"},
      {kGroup, "worker-binary", TextKind("FILE", In<&Config::worker_binary>),
       "", "the worker binary to start", "gpupool-worker beside gpupoold"},
      {kGroup, "cuda-lib-dir", TextKind("DIR", In<&Config::cuda_lib_dir>, ':'),
       "", "folder of NVIDIA's libraries, or several separated by colons",
       "the system's library folders"},
      {kGroup, "sandbox",
       WordKind("KIND", In<&Config::sandbox>, {"auto", "off"}), "auto",
       "auto: the kernel keeps workers from files, programs, processes and "
       "networks that they do not need, as far as it can; off: it does not, "
       "for "
       "debugging",
       "", "[The sandbox](#the-sandbox)"},
      {kGroup, "slots", CountKind(In<&SlotRingOptions::slot_count>, 1, 1024),
       absl::StrCat(kRing.slot_count),
       "maximum number of batches in flight on each worker"},
      {kGroup, "slot-bytes",
       BytesKind(In<&SlotRingOptions::slot_bytes>, 4 * kKiB, kGiB),
       BytesText(kRing.slot_bytes),
       "largest batch; memory is used when it is first written, on a GPU's "
       "worker all of it at the start, because it is pinned"},
      {kGroup, "hang-timeout", SecondsKind(In<&Config::hang_timeout>, 0, kDay),
       "60",
       "a training step or a batch of requests counts as hung when it takes "
       "longer than this and 20 times as long as the job's steps or the "
       "version's batches usually take; its worker is then killed; the first "
       "step of a job, and other work (compiling, loading, evaluating, steps "
       "with other devices), may take 30 times this; 0: never"},
      {kGroup, "checkpoint-interval",
       SecondsKind(In<&Config::checkpoint_interval>, 0, kDay), "180",
       "time between checkpoints of jobs that do not set "
       "checkpoint_every_steps; longer where that would take more than 1% of "
       "the time; 0: none but the last"},
      {kGroup, "drain-grace", SecondsKind(In<&Config::drain_grace>, 1, kHour),
       "30", "how long SIGTERM waits for running steps"},
  };
}

std::vector<Setting> PlaceSettings() {
  static constexpr char kGroup[] = "Addresses and files";
  return {
      {kGroup, "state-dir", TextKind("DIR", In<&Config::state_dir>),
       "gpupool-state", "folder of everything that the server writes"},
      {kGroup, "listen", AddressKind(In<&Config::listen>), "127.0.0.1",
       "address of all three ports", "", "[Security](#security)"},
      {kGroup, "grpc-port", PortKind(In<&Config::grpc_port>), "8001",
       "port of the gRPC services; 0 takes any free port"},
      {kGroup, "http-port", PortKind(In<&Config::http_port>), "8000",
       "port of HTTP, including liveness and readiness; 0 takes any free port"},
      {kGroup, "http-names",
       TextKind("NAME,NAME", In<&Config::http_names>, ','), "",
       "names of this machine under which browsers may open the web page; its "
       "IP addresses and localhost always work",
       "none"},
      {kGroup, "metrics-port", PortKind(In<&Config::metrics_port>), "8002",
       "port of the metrics for Prometheus; 0 takes any free port"},
      {kGroup, "triton-metrics", SwitchKind(In<&Config::triton_metrics>),
       "true",
       "whether the metrics also have the names of Triton Inference Server's",
       "", "[metrics.md](metrics.md#triton-inference-server)"},
      {kGroup, "port-file", TextKind("FILE", In<&Config::port_file>), "",
       "file that gets the actual ports as JSON once all of them serve",
       "none is written"},
      {kGroup, "log-level",
       WordKind("LEVEL", In<&Config::log_level>,
                {"debug", "info", "warning", "error"}),
       "info", "lowest severity that is logged"},
      {kGroup, "log-format",
       WordKind("FORMAT", In<&Config::log_format>, {"text", "json"}), "text",
       "form of the lines of the log, and of the workers' logs; json: each "
       "line is one JSON object",
       "", "[The log](#the-log)"},
  };
}

std::vector<Setting> TlsSettings() {
  static constexpr char kGroup[] = "TLS";
  return {
      {kGroup, "tls-certificate", TextKind("FILE", In<&TlsFiles::certificate>),
       "",
       "certificate of the server in PEM form, with the certificates of "
       "intermediate authorities behind it; gRPC and HTTP then take TLS only",
       "no TLS", "[TLS](#tls)"},
      {kGroup, "tls-key", TextKind("FILE", In<&TlsFiles::key>), "",
       "private key of the certificate in PEM form; only its owner may be able "
       "to read the file",
       "no TLS"},
      {kGroup, "tls-client-ca", TextKind("FILE", In<&TlsFiles::client_ca>), "",
       "certificates of authorities in PEM form; each client must then have a "
       "certificate of one of them",
       "clients need no certificate"},
  };
}

std::vector<Setting> AccessSettings() {
  static constexpr char kGroup[] = "Who may call";
  return {
      {kGroup, "auth",
       WordKind("KIND", In<&Config::auth>, {"local", "tokens", "none"}),
       "local",
       "local: the server's user and root need no token from its machine, and "
       "with tls-client-ca whoever has a certificate needs none; tokens: each "
       "call needs a token, whose role says what it may do; none: whoever "
       "reaches the server may do everything",
       "", "[Who may call](#who-may-call)"},
      {kGroup, "socket", TextKind("PATH", In<&Config::socket>), "auto",
       "Unix socket for gRPC; only the server's user and root can open it, and "
       "they need no token there; auto: gpupoold.sock in the state folder; "
       "none: no socket",
       "", "[The socket](#the-socket)"},
      {kGroup, "audit", WordKind("KIND", In<&Config::audit>, {"on", "off"}),
       "on",
       "on: the folder audit in the state folder keeps a record of each call "
       "that changes something, and of each that is denied",
       "", "[The audit log](#the-audit-log)"},
      {kGroup, "audit-file-bytes",
       BytesKind(In<&Config::audit_file_bytes>, 64 * kKiB, kTiB), "64MiB",
       "size at which a new file of the audit log begins", "",
       "[The audit log](#the-audit-log)"},
      {kGroup, "audit-files", CountKind(In<&Config::audit_files>, 2, 1 << 16),
       "16",
       "number of files of the audit log that are kept; the oldest are deleted",
       "", "[The audit log](#the-audit-log)"},
      {kGroup, "shared-memory",
       WordKind("KIND", In<&Config::shared_memory>, {"on", "off"}), "off",
       "on: clients on this machine may have tensors read from POSIX shared "
       "memory and written to it",
       "", "[Shared memory](#shared-memory)"},
  };
}

std::vector<Setting> LimitSettings() {
  static constexpr char kGroup[] = "Limits and what is kept";
  return {
      {kGroup, "dataset-limit",
       BytesKind(In<&ApiLimits::dataset_bytes>, 1, 64 * kTiB), "8GiB",
       "largest dataset, all its files together"},
      {kGroup, "model-limit",
       BytesKind(In<&ApiLimits::model_file_bytes>, 1, 64 * kTiB), "8GiB",
       "largest file of a model that is uploaded"},
      {kGroup, "keep-uploads",
       SecondsKind(In<&Config::keep_uploads>, 0, 30 * kDay),
       SecondsText(PartialOptions().keep),
       "how long the bytes of an upload that broke are kept, after the last of "
       "them, so that its client can go on; 0: they are not kept",
       "", "[Uploads that break](#uploads-that-break)"},
      {kGroup, "upload-files", CountKind(In<&Config::upload_files>, 1, 1 << 16),
       absl::StrCat(PartialOptions().most_files),
       "maximum number of files that can be resumed, open and kept uploads "
       "together; the oldest kept ones are deleted first",
       "", "[Uploads that break](#uploads-that-break)"},
      {kGroup, "upload-bytes",
       BytesKind(In<&Config::upload_bytes>, 1, 1024 * kTiB), "",
       "announced bytes of these files together",
       "4 times the larger of `--dataset-limit` and `--model-limit`",
       "[Uploads that break](#uploads-that-break)"},
      {kGroup, "message-limit",
       BytesKind(In<&ApiLimits::message_bytes>, 2 * kMiB, kGiB), "64MiB",
       "largest gRPC message, and largest inference request over HTTP"},
      {kGroup, "event-queue",
       CountKind(In<&Config::event_queue_size>, 16, 1 << 20), "4096",
       "maximum number of events that wait for the control thread; further "
       "calls are refused"},
      {kGroup, "watch-limit",
       CountKind(In<&ApiLimits::watch_streams>, 1, 1 << 20), "1024",
       "maximum number of open watch streams, for jobs and for devices "
       "separately; one caller may have half of them"},
      {kGroup, "disk-reserve",
       BytesKind(In<&Config::disk_reserve_bytes>, 0, kTiB), "64MiB",
       "disk space that is kept for the database in case the disk fills up; 0: "
       "none",
       "", "[A full disk](#a-full-disk)"},
      {kGroup, "keep-jobs", CountKind(In<&Config::keep_jobs>, 0, UINT32_MAX),
       "100000", "number of ended jobs that are kept, the last to end; 0: all",
       "", "[What is kept](#what-is-kept)"},
      {kGroup, "keep-job-events",
       CountKind(In<&Config::keep_job_events>, 0, UINT32_MAX), "10000",
       "number of ended jobs whose events are kept, the last to end; 0: all",
       "", "[What is kept](#what-is-kept)"},
  };
}

std::vector<Setting> OrderSettings() {
  static constexpr char kGroup[] = "Order of jobs";
  const QueuePolicy policy;
  return {
      {kGroup, "order", OrderKind(In<&QueuePolicy::order>),
       std::string(scheduler::ToString(policy.order)),
       "which job goes first: fifo: the first submitted; priority: the same, "
       "and running jobs of lower priority are preempted; easy: backfill; "
       "fair: the tenant that has had the least of its share; las, srs: least "
       "attained service, shortest remaining first, and running jobs are "
       "preempted",
       "", "[Order](#order)"},
      {kGroup, "tenants", TenantsKind(In<&QueuePolicy::tenants>), "",
       "weights, limits and guarantees of tenants, as "
       "research:weight=3,guaranteed=4;research.vision:most=2",
       "none", "[Tenants](#tenants)"},
      {kGroup, "queues", QueuesKind(In<&Config::queues>), "",
       "queues in addition to `default`, which may be listed too, each with "
       "its own order, as "
       "short:order=las,rank=10,preempts=yes;big:devices=cuda:0+cuda:1,most=2",
       "only `default`", "[Queues](#queues)"},
      {kGroup, "usage-half-life",
       SecondsKind(In<&QueuePolicy::usage_half_life>, 0, 366 * kDay),
       SecondsText(policy.usage_half_life),
       "half-life of a tenant's past use, for the order fair; 0: only present "
       "use counts"},
      {kGroup, "preempt-hysteresis",
       FactorKind(In<&QueuePolicy::hysteresis>, 1, 1000),
       absl::StrCat(policy.hysteresis),
       "with the orders las and srs a running job is preempted when its "
       "standing is this many times that of the waiting job"},
      // Where jobs give way, one step is short compared with a start.
      {kGroup, "min-run", SecondsKind(In<&QueuePolicy::min_run>, 0, kDay), "30",
       "minimum time that a job runs after each start before it may be "
       "preempted"},
  };
}

std::vector<Setting> PlacementSettings() {
  static constexpr char kGroup[] = "Placement, elastic jobs and serving";
  const QueuePolicy policy;
  return {
      {kGroup, "placement", PlacementKind(In<&QueuePolicy::placement>),
       std::string(scheduler::ToString(policy.placement)),
       "where a job starts if several places have room: spread: where the "
       "fewest others run; best-fit: where the fewest bytes are left; pack: "
       "where it leaves the least fragmentation for typical jobs",
       "", "[Where a job starts](scheduling.md#where-a-job-starts)"},
      {kGroup, "serving-target-delay",
       DelayKind(In<&Config::serving_target_delay>, 600), "0.5",
       "training leaves a device when requests to a model there wait longer "
       "than this, and gives its memory to models that are to be loaded; 0: "
       "never",
       "", "[Training gives way to serving](#training-gives-way-to-serving)"},
      {kGroup, "grow-after", SecondsKind(In<&QueuePolicy::grow_after>, 0, kDay),
       SecondsText(policy.grow_after),
       "an elastic job takes more devices after they have been idle for this "
       "long, and for ten times the cost of a restart"},
      {kGroup, "restart-cost",
       SecondsKind(In<&QueuePolicy::restart_cost>, 0, kDay),
       SecondsText(policy.restart_cost),
       "cost of stopping and resuming a job, until three restarts have been "
       "measured; after that the median of the last 32"},
  };
}

std::vector<Setting> RepositorySettings() {
  static constexpr char kGroup[] = "Model repository";
  return {
      {kGroup, "model-repository", FoldersKind(In<&Config::model_repositories>),
       "",
       "folder with models as NAME/VERSION/model.onnx and NAME/config.pbtxt; "
       "several flags or colons for several folders",
       "none", "[Model repositories](model_repository.md)"},
      {kGroup, "model-control-mode",
       WordKind("MODE", In<&Config::model_control_mode>,
                {"none", "poll", "explicit"}),
       "none",
       "which models of the folders are loaded: none: all of them, once, at "
       "the start; poll: all of them, and later what is added, changed or "
       "removed; explicit: those that a client asks for"},
      {kGroup, "repository-poll",
       SecondsKind(In<&Config::repository_poll>, 1, kDay), "15",
       "time between two looks at the folders; a changed file is taken when "
       "two looks found it with the same size and time"},
      {kGroup, "response-cache-bytes",
       BytesOrZeroKind(In<&Config::response_cache_bytes>, kLeastCacheBytes,
                       kTiB),
       "0",
       "memory for answers of models whose config.pbtxt has response_cache; 0: "
       "no answers are kept, and such models are refused",
       "", "[The response cache](model_repository.md#the-response-cache)"},
  };
}

std::vector<Setting> TraceSettings() {
  static constexpr char kGroup[] = "Traces";
  return {
      {kGroup, "trace-endpoint", CollectorKind(In<&Config::trace_endpoint>), "",
       "collector that gets traces of requests and jobs by OTLP over HTTP, as "
       "http://localhost:4318",
       "no traces", "[Traces](tracing.md)"},
      {kGroup, "trace-sampling", FactorKind(In<&Config::trace_sampling>, 0, 1),
       "0.01",
       "share of the requests that are traced, among those that come without "
       "a traceparent; one with a traceparent is traced when its client "
       "traces"},
      {kGroup, "trace-service-name",
       TextKind("NAME", In<&Config::trace_service_name>), "gpupool",
       "name of this server in its traces (service.name)"},
  };
}

std::vector<Setting> AllSettings() {
  std::vector<Setting> all;
  for (const auto& group :
       {DeviceSettings, PlaceSettings, TlsSettings, AccessSettings,
        LimitSettings, OrderSettings, PlacementSettings, RepositorySettings,
        TraceSettings}) {
    std::vector<Setting> settings = group();
    std::move(settings.begin(), settings.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::string WithDashes(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"_", "-"}});
}

const std::vector<Setting>& Settings() {
  // Never destroyed, so that threads may read it while the process ends.
  static const auto& settings = *new std::vector<Setting>(AllSettings());
  return settings;
}

const Setting* FindSetting(absl::string_view name) {
  const std::string wanted = WithDashes(name);
  for (const Setting& setting : Settings()) {
    if (setting.name == wanted) return &setting;
  }
  return nullptr;
}

std::string NearestSetting(absl::string_view name) {
  std::vector<std::string> names;
  for (const Setting& setting : Settings()) names.emplace_back(setting.name);
  return NearestName(WithDashes(name), names);
}

}  // namespace gpupool::server
