#include "server/server.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "engine/base/check.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/api/api_server.h"
#include "server/api/control_repository.h"
#include "server/api/inference/inference_service.h"
#include "server/clock.h"
#include "server/control/calls/context.h"
#include "server/control/control_loop.h"
#include "server/control/devices/admin_requests.h"
#include "server/control/devices/device_board.h"
#include "server/control/devices/device_requests.h"
#include "server/device_list.h"
#include "server/devices.h"
#include "server/gpu_query.h"
#include "server/http/http_server.h"
#include "server/http/metrics_endpoint.h"
#include "server/metrics/metrics.h"
#include "server/pool/process.h"
#include "server/pool/worker_pool.h"
#include "server/pool/worker_port.h"
#include "server/repository/folder_repository.h"
#include "server/repository/replaced_versions.h"
#include "server/repository/version_calls.h"
#include "server/server_access.h"
#include "server/server_log.h"
#include "server/server_tracer.h"
#include "server/serving/decoupled/decoupled_executor.h"
#include "server/serving/model_registry.h"
#include "server/serving/response_cache.h"
#include "server/serving/serving.h"
#include "server/serving_metrics.h"
#include "server/startup_check.h"
#include "server/state_dir.h"
#include "server/store/blob_store.h"
#include "server/store/lost_database.h"
#include "server/trace/tracer.h"

namespace gpupool::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr absl::Duration kWorkersStart = absl::Seconds(20);
// Delay before a message that the GPUs are still being listed.
constexpr absl::Duration kGpuListSlow = absl::Seconds(1);
// Time that calls in flight have to end: those over HTTP first, then the
// others.
constexpr absl::Duration kCallsEnd = absl::Seconds(1);
// EX_IOERR of sysexits.h: the state folder's disk failed.
constexpr int kExitDiskFailed = 74;

std::string NewBootId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(),
                         random());
}

std::string WorkerBinary(const Config& config) {
  if (!config.worker_binary.empty()) return config.worker_binary;
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "gpupool-worker").string();
}

// Returns the mode of a word that the table of settings allows.
ModelControlMode ModeOf(const std::string& word) {
  if (word == "poll") return ModelControlMode::kPoll;
  return word == "explicit" ? ModelControlMode::kExplicit
                            : ModelControlMode::kNone;
}

// Ends the process at once. Nothing that was decided since the last commit may
// be answered or done. The next start reads the disk's state, and the workers
// go on meanwhile.
[[noreturn]] void EndAfterDiskFailure(const absl::Status& status) {
  spdlog::critical("the store failed, ending at once error=\"{}\"",
                   std::string(status.message()));
  spdlog::shutdown();
  _exit(kExitDiskFailed);
}

}  // namespace

class Server::Impl {
 public:
  Impl(const Config& config, const BuildInfo& build,
       std::function<bool()> give_up)
      : config_(config),
        build_(build),
        give_up_(std::move(give_up)),
        started_(clock_.Now()) {}

  ~Impl() { TakeDown(); }

  absl::Status Start() {
    RETURN_IF_ERROR(CheckTls(config_.tls, WallTime()));
    worker_binary_ = WorkerBinary(config_);
    RETURN_IF_ERROR(CheckProgram(worker_binary_));
    ASSIGN_OR_RETURN(machine_, LookAtMachine());
    ASSIGN_OR_RETURN(
        devices_,
        ChooseDevices(config_.devices, config_.device_memory_bytes, machine_));
    RETURN_IF_ERROR(OpenStorage());
    startup_check_ = std::make_unique<StartupCheck>(CheckSettings());
    RETURN_IF_ERROR(StartWork());
    RETURN_IF_ERROR(StartEndpoints());
    AwaitWorkers();
    if (folders_ != nullptr) folders_->Start();
    RETURN_IF_ERROR(WritePortFile());
    spdlog::info(
        "serving listen={} grpc_port={} http_port={} metrics_port={} "
        "socket={} devices={} state_dir={}",
        config_.listen, ports_.grpc, ports_.http, ports_.metrics, socket_.path,
        devices_.size(), state_dir_->path());
    return absl::OkStatus();
  }

  void Drain() {
    spdlog::info("draining: no further jobs, running ones checkpoint");
    const absl::Time deadline = clock_.Now() + config_.drain_grace;
    api_->SetServing(false);
    DrainServer(control_->context(), /*stop=*/true, [](const auto&) {});
    if (!control_->context().board->WaitUntilIdle(config_.drain_grace)) {
      spdlog::warn(
          "some jobs did not stop in time; they will resume from "
          "their last checkpoint");
    }
    EndCallsAndWork(WorkerPool::ShutdownMode::kDrain, deadline);
    spdlog::info("drained");
  }

  const Ports& ports() const { return ports_; }
  absl::Notification& stop() { return stop_; }
  void RequestStop() {
    absl::MutexLock lock(&stop_mutex_);
    if (!stop_.HasBeenNotified()) stop_.Notify();
  }

 private:
  // Asks for the GPUs, and prints a message when that takes long.
  absl::StatusOr<std::vector<UsableGpu>> FindGpus() const {
    bool told = false;
    const absl::Time slow = clock_.Now() + kGpuListSlow;
    return AskForGpus(worker_binary_, config_.cuda_lib_dir, kGpuListLimit, [&] {
      if (!told && clock_.Now() > slow) {
        spdlog::info(
            "waiting for the list of GPUs command=\"{} devices\" "
            "at_most={}",
            worker_binary_, absl::FormatDuration(kGpuListLimit));
        told = true;
      }
      return give_up_();
    });
  }

  // Returns the machine's facts. Without usable GPUs that is no error here: the
  // words of --devices decide whether they are needed.
  absl::StatusOr<MachineFacts> LookAtMachine() const {
    MachineFacts machine = ReadMachineFacts();
    if (!MayMeanGpus(config_.devices)) return machine;
    auto gpus = FindGpus();
    if (absl::IsCancelled(gpus.status())) return gpus.status();
    if (gpus.ok()) {
      machine.gpus = *std::move(gpus);
      for (size_t i = 0; i < machine.gpus.size(); ++i) {
        const std::string& refusal = machine.gpus[i].refusal;
        if (refusal.empty()) continue;
        spdlog::warn("a GPU cannot be used device=cuda:{} reason=\"{}\"", i,
                     refusal);
      }
    } else {
      machine.no_gpus = std::string(gpus.status().message());
      if (absl::IsDeadlineExceeded(gpus.status())) {
        spdlog::warn(
            "no GPU is used reason=\"{}\" remedy=\"see what `gpupool "
            "doctor` says, or start with --devices cpu:N\"",
            machine.no_gpus);
      } else {
        spdlog::info("no GPU is used reason=\"{}\"", machine.no_gpus);
      }
    }
    return machine;
  }

  absl::Status OpenStorage() {
    ASSIGN_OR_RETURN(state_dir_, StateDir::Open(config_.state_dir));
    ASSIGN_OR_RETURN(socket_, ClaimSocket(config_.socket, state_dir_->path()));
    ASSIGN_OR_RETURN(
        store_, OpenStoreOf(state_dir_->path(), StoreSettings(), WallTime()));
    ASSIGN_OR_RETURN(gate_, OpenGate(FreeCallersOf(config_), state_dir_->path(),
                                     store_.get(), WallTime));
    RETURN_IF_ERROR(
        KeepAuditLog(config_, state_dir_->path(), &metrics_, gate_.get()));
    ASSIGN_OR_RETURN(blobs_, BlobStore::Open(state_dir_->path() + "/blobs",
                                             PartialOptionsOf(config_)));
    metrics_.Set(GaugeName::kBuildInfo, {build_.version, build_.commit}, 1);
    return absl::OkStatus();
  }

  std::string DatabasePath() const {
    return state_dir_->path() + "/gpupool.db";
  }

  StoreOptions StoreSettings() const {
    return {.reserve_bytes = config_.disk_reserve_bytes,
            .keep_jobs = config_.keep_jobs,
            .keep_job_events = config_.keep_job_events};
  }

  // Starts control, pool and serving. Each needs the one before; control gets
  // the later two through Start.
  absl::Status StartWork() {
    tracer_ = MakeTracer(config_, {build_.version, boot_id_}, &metrics_);
    ASSIGN_OR_RETURN(control_,
                     ControlLoop::Create(ControlSettings(), ControlNeeds()));
    ASSIGN_OR_RETURN(pool_, WorkerPool::Create(PoolSettings(), control_.get()));
    cache_ = MakeResponseCache(config_.response_cache_bytes, &metrics_);
    serving_ = std::make_unique<Serving>(ServingNeeds());
    control_->Start(pool_.get(), serving_.get());
    NoteTokenUses(gate_.get(), &control_->context());
    serving_->Start();
    return absl::OkStatus();
  }

  // Starts what is reached from outside, after everything that it calls.
  absl::Status StartEndpoints() {
    repository_ = std::make_unique<ControlRepository>(&control_->context());
    MakeFolders();
    inference_ = std::make_unique<InferenceService>(InferenceNeeds());
    ASSIGN_OR_RETURN(api_, ApiServer::Start(ApiSettings(), ApiNeeds()));
    ports_.grpc = api_->port();
    ASSIGN_OR_RETURN(
        http_,
        HttpServer::Start(
            {.address = config_.listen,
             .port = config_.http_port,
             .rest_body_bytes = config_.limits.message_bytes,
             .names = absl::StrSplit(config_.http_names, absl::ByAnyChar(", "),
                                     absl::SkipEmpty()),
             .tls = config_.tls,
             .gate = gate_.get(),
             .calls_end = kCallsEnd},
            api_->InProcessChannel()));
    ports_.http = static_cast<uint16_t>(http_->port());
    ASSIGN_OR_RETURN(
        endpoint_, MetricsEndpoint::Start(config_.listen, config_.metrics_port,
                                          [this] { return metrics_.Text(); }));
    ports_.metrics = endpoint_->port();
    return absl::OkStatus();
  }

  // Makes the repository of --model-repository, if there is one.
  void MakeFolders() {
    if (config_.model_repositories.empty()) return;
    calls_ = std::make_unique<ControlCalls>(&control_->context());
    folders_ = std::make_unique<FolderRepository>(
        FolderRepositoryOptions{
            .roots = absl::StrSplit(config_.model_repositories, ':'),
            .mode = ModeOf(config_.model_control_mode),
            .interval = config_.repository_poll,
            .file_limit_bytes = config_.limits.model_file_bytes},
        FolderRepositoryDependencies{.calls = calls_.get(),
                                     .blobs = blobs_.get(),
                                     .others = repository_.get(),
                                     .set_caching = CachingSwitch(),
                                     .replaced = &replaced_,
                                     .ensembles = &serving_->ensembles(),
                                     .repeat = RepeatNeedsOf(*serving_)});
  }

  // Returns an empty function without a response cache.
  SetCaching CachingSwitch() {
    if (cache_ == nullptr) return {};
    return [this](const std::string& model, bool on) {
      serving_->SetCaching(model, on);
    };
  }

  InferenceServiceOptions InferenceNeeds() {
    InferenceServiceOptions options{
        .serving = serving_.get(),
        .repository = repository_.get(),
        .log = &log_,
        .observer = &observer_,
        .tracer = tracer_.get(),
        .regions = OpenRegions(config_.shared_memory, gate_.get()),
        .server_version = build_.version,
        .control = &control_->context(),
        .gate = gate_.get()};
    if (folders_ != nullptr) {
      options.repository = folders_.get();
      options.ready = [this] { return folders_->loaded(); };
    }
    return options;
  }

  ControlOptions ControlSettings() const {
    ControlOptions options;
    for (const DeviceChoice& device : devices_) {
      options.devices.push_back(
          {device.name, device.limit_bytes, device.threads, device.links});
    }
    options.state_dir = state_dir_->path();
    options.groups_folder = absl::StrCat(state_dir_->path(), "/groups");
    options.queue_limit = config_.event_queue_size;
    options.planner = Planner();
    options.keeps_tenants_apart = gate_->checks_calls();
    options.scheduling = SchedulingOf(config_);
    options.host = {uint64_t{machine_.cores} * 1000, machine_.memory_bytes};
    options.check_servable = [slot_bytes = config_.ring.slot_bytes](
                                 const v1::ModelVersion& version) {
      return CheckServable(version, slot_bytes);
    };
    return options;
  }

  // Returns the kind that jobs are planned for: GPUs if there are any, since
  // they come first. The worker of a CPU device beside them makes its own plan
  // when that one is too small.
  std::string PlannedKind() const {
    return devices_.front().name.substr(0, devices_.front().name.find(':'));
  }

  // Returns the largest size of a job; 0 when plans do not depend on it.
  uint64_t PlannedLimit() const {
    uint64_t limit = 0;
    if (PlannedKind() != "cuda") return limit;
    for (const DeviceChoice& device : devices_) {
      if (!absl::StartsWith(device.name, "cuda:")) continue;
      limit = std::max(limit, device.limit_bytes);
    }
    return limit;
  }

  // Returns a fingerprint, never 0, of what plans depend on besides their
  // specs: the build, the kind of the devices, the threads of the meta worker,
  // the facts of the GPU and its bytes.
  uint64_t Planner() const {
    const std::string digest = engine::Sha256Hex(absl::StrCat(
        build_.version, " ", build_.commit, " ", devices_.front().threads, " ",
        PlannedKind(), " ", PlannedLimit(), " ", devices_.front().facts));
    uint64_t number = 0;
    GPUPOOL_CHECK(absl::SimpleHexAtoi(digest.substr(0, 15), &number));
    return std::max<uint64_t>(number, 1);
  }

  ControlDependencies ControlNeeds() {
    return {.store = store_.get(),
            .blobs = blobs_.get(),
            .metrics = &metrics_,
            .tracer = tracer_.get(),
            .now = [this] { return clock_.Now(); },
            .fatal = EndAfterDiskFailure};
  }

  StartupCheckOptions CheckSettings() const {
    return {.worker_binary = worker_binary_,
            .cuda_lib_dir = config_.cuda_lib_dir,
            .state_dir = state_dir_->path(),
            .ring_bytes = config_.ring.slot_count * config_.ring.slot_bytes,
            .may_use_gpus = MayMeanGpus(config_.devices),
            .needs_gpus = PlannedKind() == "cuda"};
  }

  PoolOptions PoolSettings() const {
    PoolOptions options;
    options.state_dir = state_dir_->path();
    options.worker_binary = worker_binary_;
    options.cuda_lib_dir = config_.cuda_lib_dir;
    options.sandbox = config_.sandbox;
    options.daemon_boot_id = boot_id_;
    options.ring = config_.ring;
    options.hang_timeout = config_.hang_timeout;
    options.checkpoint_interval = config_.checkpoint_interval;
    options.log_format = config_.log_format;
    for (const DeviceChoice& device : devices_) {
      options.devices.push_back({device.name, device.limit_bytes,
                                 device.threads,
                                 control_->LastReportSequence(device.name)});
    }
    // A plan needs a device's number of threads: scratch depends on it.
    options.devices.push_back({.name = kMetaDevice,
                               .limit_bytes = PlannedLimit(),
                               .threads = devices_.front().threads,
                               .plan_for = devices_.front().name,
                               .plan_facts = devices_.front().facts});
    options.devices.push_back({.name = kRehearsalDevice,
                               .limit_bytes = PlannedLimit(),
                               .threads = devices_.front().threads});
    return options;
  }

  ServingDependencies ServingNeeds() {
    return {
        .ring = [this](const std::string& name) { return pool_->ring(name); },
        .catalogue =
            [this](absl::string_view model) {
              return replaced_.WithReplaced(
                  model, [this](auto name) { return store_->GetModel(name); });
            },
        .observer = &observer_,
        .decouple = DecoupleLoop,
        .target_delay = config_.serving_target_delay,
        .load_changed =
            [this](uint64_t version, bool under_load) {
              SetServingLoad(control_->context(), version, under_load);
            },
        .cache = cache_.get()};
  }

  ApiOptions ApiSettings() const {
    return {.listen = config_.listen,
            .port = config_.grpc_port,
            .limits = config_.limits,
            .tls = config_.tls,
            .socket = socket_.path};
  }

  ApiDependencies ApiNeeds() {
    return {
        .control = &control_->context(),
        .blobs = blobs_.get(),
        .folders = folders_.get(),
        .gate = gate_.get(),
        .hooks = {.info = [this] { return Info(); },
                  .stop = [this] { RequestStop(); },
                  .database = DatabasePath()},
        .more_services = {{inference::GRPCInferenceService::service_full_name(),
                           inference_.get()}}};
  }

  v1::ServerInfo Info() const {
    v1::ServerInfo info;
    info.set_version(build_.version);
    info.set_commit(build_.commit);
    info.set_boot_id(boot_id_);
    *info.mutable_start_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(started_));
    *info.mutable_uptime() = TimeUtil::MicrosecondsToDuration(
        absl::ToInt64Microseconds(clock_.Now() - started_));
    info.set_schema_version(store_->schema_version());
    info.set_grpc_port(ports_.grpc);
    info.set_http_port(ports_.http);
    info.set_metrics_port(ports_.metrics);
    info.set_draining(control_->context().board->draining());
    *info.mutable_scheduling() = control_->context().board->Scheduling();
    return info;
  }

  bool Ready(const std::string& device) const {
    return pool_->status(device).state == WorkerStatus::State::kReady;
  }

  // Waits for the workers. The server would work without that, but "it serves"
  // should mean that the first call finds them.
  void AwaitWorkers() const {
    const absl::Time deadline = clock_.Now() + kWorkersStart;
    // Looks at control's state, as callers do: control hears of a worker after
    // the pool.
    const auto ready = [this] {
      if (!Ready(kMetaDevice)) return false;
      const std::vector<v1::Device> devices = ListDevices(control_->context());
      return std::all_of(devices.begin(), devices.end(),
                         [](const v1::Device& device) {
                           return device.state() == v1::DEVICE_READY;
                         });
    };
    while (!ready() && !give_up_()) {
      if (clock_.Now() > deadline) {
        spdlog::warn("some workers have not started; see the logs in {}",
                     state_dir_->path() + "/workers");
        return;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  // Writes the port file last of all: who sees it may call.
  absl::Status WritePortFile() const {
    if (config_.port_file.empty()) return absl::OkStatus();
    const nlohmann::json ports = {
        {"grpc_port", ports_.grpc},       {"http_port", ports_.http},
        {"metrics_port", ports_.metrics}, {"listen", config_.listen},
        {"socket", socket_.path},         {"pid", getpid()}};
    return WriteFileAtomically(config_.port_file, ports.dump() + "\n");
  }

  // Ends calls and work. The API ends only when every call has its answer:
  //   * calls that wait in serving are answered at once, those in flight soon
  //   * calls that wait for a worker or for control may wait long, and are
  //     answered when those end
  void EndCallsAndWork(WorkerPool::ShutdownMode mode, absl::Time deadline) {
    // HTTP ends first, because its calls need everything else.
    http_.reset();
    if (folders_ != nullptr) folders_->BeginStop();
    if (serving_ != nullptr) serving_->Stop();
    absl::Notification calls_ended;
    std::thread api_end([&] {
      if (api_ != nullptr) api_->Stop(kCallsEnd);
      calls_ended.Notify();
    });
    calls_ended.WaitForNotificationWithTimeout(kCallsEnd);
    if (pool_ != nullptr) {
      pool_->Shutdown(mode, std::max(deadline - clock_.Now(), kCallsEnd));
    }
    if (control_ != nullptr) control_->Stop();
    if (folders_ != nullptr) folders_->Join();
    api_end.join();
  }

  // The order of the members does the rest.
  void TakeDown() {
    endpoint_.reset();
    EndCallsAndWork(WorkerPool::ShutdownMode::kDetach, clock_.Now());
    api_.reset();
    pool_.reset();
  }

  const Config config_;
  const BuildInfo build_;
  const std::function<bool()> give_up_;
  const SteadyClock clock_;
  const absl::Time started_;
  const std::string boot_id_ = NewBootId();
  absl::Mutex stop_mutex_;
  absl::Notification stop_;
  std::string worker_binary_;
  MachineFacts machine_;
  std::vector<DeviceChoice> devices_;
  Ports ports_;

  Metrics metrics_{MetricsOptions{.triton_names = config_.triton_metrics}};
  std::unique_ptr<StartupCheck> startup_check_;
  std::unique_ptr<StateDir> state_dir_;
  ClaimedSocket socket_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<AccessGate> gate_;
  std::unique_ptr<BlobStore> blobs_;
  ServingMetrics observer_{&metrics_};
  ServerLog log_{config_.log_format};
  ReplacedVersions replaced_;
  std::unique_ptr<Tracer> tracer_;        // null without --trace-endpoint
  std::unique_ptr<ResponseCache> cache_;  // null: no answers are kept
  std::unique_ptr<ControlLoop> control_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<ControlRepository> repository_;
  std::unique_ptr<ControlCalls> calls_;
  std::unique_ptr<FolderRepository> folders_;  // null without folders
  std::unique_ptr<InferenceService> inference_;
  std::unique_ptr<ApiServer> api_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Config& config, const BuildInfo& build,
    const std::function<bool()>& give_up) {
  auto impl = std::make_unique<Impl>(config, build, give_up);
  RETURN_IF_ERROR(impl->Start());
  return absl::WrapUnique(new Server(std::move(impl)));
}

const Ports& Server::ports() const { return impl_->ports(); }

void Server::RequestStop() { impl_->RequestStop(); }

void Server::WaitForStop() { impl_->stop().WaitForNotification(); }

void Server::Drain() { impl_->Drain(); }

}  // namespace gpupool::server
