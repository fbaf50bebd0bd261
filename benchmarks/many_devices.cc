// A server with many GPUs that do not exist: the database, the control loop,
// the gRPC endpoint and the HTTP port of gpupoold, with a stand-in for the
// workers. It plans every job alike, starts jobs that never end, and sends the
// heartbeats of all devices.
//
//   many_devices STATE_DIR DEVICES JOB_BYTES
//
// Writes STATE_DIR/ports.json when all devices are ready, and ends at SIGTERM.
// Each device has 64 GiB; each job is planned with JOB_BYTES.
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/api/api_server.h"
#include "server/control/calls/context.h"
#include "server/control/control_loop.h"
#include "server/http/http_server.h"
#include "server/pool/worker_port.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace {

using namespace gpupool::server;  // NOLINT(google-build-using-namespace)
namespace v1 = gpupool::v1;
namespace worker = gpupool::worker;

// Job files name devices up to cuda:1023.
constexpr uint32_t kMostDevices = 1024;
constexpr uint64_t kDeviceBytes = uint64_t{64} << 30;
constexpr absl::Duration kBetweenHeartbeats = absl::Milliseconds(200);
constexpr int kSegments = 100, kBlocks = 10;  // of each snapshot

[[noreturn]] void Die(absl::string_view what) {
  std::fprintf(stderr, "many_devices: %s\n", std::string(what).c_str());
  std::exit(2);
}

template <typename T>
T Need(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().ToString());
  return *std::move(value);
}

v1::MemoryStats Memory(const std::string& device) {
  v1::MemoryStats stats;
  stats.set_device(device);
  stats.set_limit_bytes(kDeviceBytes);
  stats.set_allocated_bytes(kDeviceBytes / 2);
  stats.set_reserved_bytes(kDeviceBytes / 2);
  v1::OwnerBytes& owner = *stats.add_owners();
  owner.set_owner("job 1 / arena");
  owner.set_bytes(kDeviceBytes / 2);
  return stats;
}

v1::MemorySnapshot Snapshot(const std::string& device) {
  constexpr uint64_t kBlockBytes = kDeviceBytes / (2 * kSegments * kBlocks);
  v1::MemorySnapshot snapshot;
  snapshot.set_device(device);
  for (int i = 0; i < kSegments; ++i) {
    v1::MemorySnapshot::Segment& segment = *snapshot.add_segments();
    segment.set_address(uint64_t{1 + static_cast<uint64_t>(i)} << 32);
    segment.set_bytes(kBlocks * kBlockBytes);
    for (int j = 0; j < kBlocks; ++j) {
      v1::MemorySnapshot::Block& block = *segment.add_blocks();
      block.set_offset(static_cast<uint64_t>(j) * kBlockBytes);
      block.set_bytes(kBlockBytes);
      block.set_requested_bytes(kBlockBytes);
      block.set_owner("job 1 / arena");
    }
  }
  return snapshot;
}

// Returns a worker's first message, with the facts of a GPU.
worker::v1::HelloReply Hello(const std::string& device, uint32_t number) {
  worker::v1::HelloReply hello;
  hello.set_device(device);
  hello.set_worker_boot_id(absl::StrCat("boot-", number));
  hello.set_pid(1000 + number);
  v1::Device& info = *hello.mutable_info();
  info.set_description("a GPU that does not exist");
  *info.mutable_memory() = Memory(device);
  v1::GpuFacts& gpu = *info.mutable_gpu();
  gpu.set_uuid(absl::StrFormat("GPU-%08x-0000-0000-0000-000000000000", number));
  gpu.set_pci_bus_id(absl::StrFormat("%04x:3b:00.0", number));
  gpu.set_compute_capability("9.0");
  gpu.set_multiprocessors(132);
  gpu.set_total_bytes(kDeviceBytes);
  gpu.set_driver_version("580.0");
  gpu.set_cuda_version("13.0");
  info.mutable_peak_rates()->set_float32_flops(6e13);
  info.mutable_peak_rates()->set_bytes(4e12);
  return hello;
}

v1::GpuReadings Readings() {
  v1::GpuReadings readings;
  readings.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  readings.set_utilization(0.5);
  readings.set_memory_utilization(0.25);
  readings.set_used_bytes(kDeviceBytes / 2);
  readings.set_temperature_celsius(60);
  readings.set_power_watts(400);
  readings.set_power_limit_watts(700);
  readings.set_multiprocessor_clock_mhz(1980);
  readings.set_memory_clock_mhz(3201);
  readings.set_ecc_corrected(0);
  readings.set_ecc_uncorrected(0);
  v1::GpuProcess& process = *readings.add_processes();
  process.set_pid(1000);
  process.set_bytes(kDeviceBytes / 2);
  return readings;
}

// Stands in for the worker processes of all devices, and for the planner.
class StandInWorkers : public WorkerPort {
 public:
  explicit StandInWorkers(uint64_t job_bytes) : job_bytes_(job_bytes) {}

  void Send(const std::string& device, worker::v1::ToWorker message,
            absl::Duration, ReplyCallback callback) override {
    worker::v1::FromWorker reply;
    if (message.has_plan_training()) {
      reply.mutable_plan()->set_total_steps(1);
      reply.mutable_plan()->mutable_plan()->mutable_training()->set_peak(
          job_bytes_);
    } else if (message.has_get_memory()) {
      *reply.mutable_memory()->mutable_stats() = Memory(device);
      if (message.get_memory().with_snapshot()) {
        *reply.mutable_memory()->mutable_snapshot() = Snapshot(device);
      }
    }
    callback(std::move(reply));
  }

  void Post(const std::string& device, worker::v1::ToWorker message) override {
    if (!message.has_start_job()) return;
    absl::MutexLock lock(&mutex_);
    starts_.emplace_back(device, message.start_job());
  }

  void AcknowledgeReports(const std::string&, uint64_t) override {}

  WorkerStatus status(const std::string&) const override {
    WorkerStatus status;
    status.state = WorkerStatus::State::kReady;
    return status;
  }

  // Returns the starts since the last call.
  std::vector<std::pair<std::string, worker::v1::StartJob>> TakeStarts() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(starts_, {});
  }

 private:
  const uint64_t job_bytes_;
  absl::Mutex mutex_;
  std::vector<std::pair<std::string, worker::v1::StartJob>> starts_
      ABSL_GUARDED_BY(mutex_);
};

// Reports that the job runs.
void ReportStart(const std::string& device, const worker::v1::StartJob& job,
                 ControlLoop& control) {
  worker::v1::Report report;
  report.set_sequence(1 + job.job_id());
  report.set_job_id(job.job_id());
  report.set_attempt(job.attempt());
  report.set_time_unix_nanos(absl::ToUnixNanos(absl::Now()));
  report.mutable_started()->set_total_steps(1);
  control.OnReport(device, report);
}

// Sends the heartbeats of all devices until `stop`.
void Beat(const std::vector<std::string>& devices, StandInWorkers& workers,
          ControlLoop& control, absl::Notification& stop) {
  std::map<std::string, std::vector<worker::v1::RunningAttempt>> running;
  while (!stop.WaitForNotificationWithTimeout(kBetweenHeartbeats)) {
    for (const auto& [device, job] : workers.TakeStarts()) {
      worker::v1::RunningAttempt attempt;
      attempt.set_job_id(job.job_id());
      attempt.set_attempt(job.attempt());
      running[device].push_back(attempt);
      ReportStart(device, job, control);
    }
    for (const std::string& device : devices) {
      worker::v1::Heartbeat heartbeat;
      *heartbeat.mutable_memory() = Memory(device);
      heartbeat.set_utilization(0.5);
      *heartbeat.mutable_readings() = Readings();
      for (const auto& attempt : running[device]) {
        *heartbeat.add_running() = attempt;
      }
      control.OnHeartbeat(device, heartbeat);
    }
  }
}

// The endpoints of a server, on any free ports.
struct Endpoints {
  std::unique_ptr<ApiServer> api;
  std::unique_ptr<HttpServer> http;  // ends before `api`
};

Endpoints Listen(const ControlLoop& control, BlobStore* blobs,
                 const std::string& database) {
  ApiOptions options;
  options.listen = "127.0.0.1";
  options.limits = {.message_bytes = uint64_t{64} << 20,
                    .dataset_bytes = uint64_t{64} << 20,
                    .model_file_bytes = uint64_t{64} << 20,
                    .watch_streams = 64};
  ApiDependencies needs;
  needs.control = &control.context();
  needs.blobs = blobs;
  needs.hooks.info = [] { return v1::ServerInfo(); };
  needs.hooks.stop = [] {};
  needs.hooks.database = database;
  Endpoints endpoints;
  endpoints.api = Need(ApiServer::Start(options, std::move(needs)));
  endpoints.http = Need(HttpServer::Start(HttpServerOptions(),
                                          endpoints.api->InProcessChannel()));
  return endpoints;
}

// Writes the ports to a file that appears whole.
void WritePorts(const Endpoints& endpoints, const std::string& path) {
  const std::string draft = path + ".new";
  std::ofstream(draft) << absl::StrFormat(
      "{\"grpc_port\": %d, \"http_port\": %d}\n", endpoints.api->port(),
      endpoints.http->port());
  if (std::rename(draft.c_str(), path.c_str()) != 0) Die("no " + path);
}

void Serve(const std::string& folder, const std::vector<std::string>& devices,
           uint64_t job_bytes, const sigset_t& signals) {
  const std::string database = folder + "/gpupool.db";
  const auto store = Need(Store::Open(database));
  const auto blobs = Need(BlobStore::Open(folder + "/blobs"));
  ControlOptions options;
  options.queue_limit = 4096;
  options.remembered_rehearsals = 0;
  for (const std::string& device : devices) {
    options.devices.push_back({.name = device, .limit_bytes = kDeviceBytes});
  }
  ControlDependencies needs;
  needs.store = store.get();
  needs.blobs = blobs.get();
  needs.fatal = [](const absl::Status& status) { Die(status.ToString()); };
  StandInWorkers workers(job_bytes);
  const auto control =
      Need(ControlLoop::Create(std::move(options), std::move(needs)));
  control->Start(&workers, nullptr);
  control->OnWorkerReady(kMetaDevice, Hello(kMetaDevice, 0));
  uint32_t number = 0;
  for (const std::string& device : devices) {
    control->OnWorkerReady(device, Hello(device, ++number));
  }
  absl::Notification stop;
  std::thread heart([&] { Beat(devices, workers, *control, stop); });
  Endpoints endpoints = Listen(*control, blobs.get(), database);
  WritePorts(endpoints, folder + "/ports.json");
  int signal = 0;
  sigwait(&signals, &signal);
  endpoints.http.reset();
  endpoints.api->Stop(absl::Seconds(1));
  stop.Notify();
  heart.join();
  control->Stop();
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t devices = 0;
  uint64_t job_bytes = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[2], &devices) || devices == 0 ||
      devices > kMostDevices || !absl::SimpleAtoi(argv[3], &job_bytes)) {
    Die(absl::StrCat(
        "write many_devices STATE_DIR DEVICES JOB_BYTES, with 1 to ",
        kMostDevices, " devices"));
  }
  // Before any thread starts, so that none takes the signal.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < devices; ++i) {
    names.push_back(absl::StrCat("cuda:", i));
  }
  Serve(argv[1], names, job_bytes, signals);
}
