// A pool of real worker processes (with the stand-in engine) in its own state
// folder, and an observer that records everything.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "gtest/gtest.h"
#include "server/ipc/worker_paths.h"
#include "server/pool/worker_pool.h"
#include "tests/test_paths.h"
#include "tests/wait_until.h"

namespace gpupool::server::testing_pool {

class RecordingObserver : public WorkerObserver {
 public:
  void OnWorkerReady(const std::string& device,
                     const worker::v1::HelloReply& reply) override {
    absl::MutexLock lock(&mutex_);
    ready_[device].push_back(reply);
    log_.push_back("ready " + device);
  }
  void OnWorkerLost(const std::string& device, const absl::Status& reason,
                    const WorkOwner& work) override {
    absl::MutexLock lock(&mutex_);
    lost_[device].push_back(reason);
    lost_work_[device] = work;
    log_.push_back("lost " + device);
  }
  void OnReport(const std::string& device,
                const worker::v1::Report& report) override {
    absl::MutexLock lock(&mutex_);
    reports_.push_back(report);
    if (report.has_ended()) log_.push_back("ended " + device);
  }
  void OnHeartbeat(const std::string& device,
                   const worker::v1::Heartbeat& heartbeat) override {
    absl::MutexLock lock(&mutex_);
    heartbeats_[device] = heartbeat;
    ++heartbeat_count_;
  }

  // Returns the hellos of the device so far.
  std::vector<worker::v1::HelloReply> ready(const std::string& device) {
    absl::MutexLock lock(&mutex_);
    return ready_[device];
  }
  std::vector<absl::Status> lost(const std::string& device) {
    absl::MutexLock lock(&mutex_);
    return lost_[device];
  }
  // Returns whose work the device's last lost worker did.
  WorkOwner lost_work(const std::string& device) {
    absl::MutexLock lock(&mutex_);
    return lost_work_[device];
  }
  std::vector<worker::v1::Report> reports() {
    absl::MutexLock lock(&mutex_);
    return reports_;
  }
  std::vector<std::string> log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }
  worker::v1::Heartbeat heartbeat(const std::string& device) {
    absl::MutexLock lock(&mutex_);
    return heartbeats_[device];
  }
  int heartbeat_count() {
    absl::MutexLock lock(&mutex_);
    return heartbeat_count_;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::vector<worker::v1::HelloReply>> ready_;
  std::map<std::string, std::vector<absl::Status>> lost_;
  std::map<std::string, WorkOwner> lost_work_;
  std::vector<worker::v1::Report> reports_;
  std::vector<std::string> log_;
  std::map<std::string, worker::v1::Heartbeat> heartbeats_;
  int heartbeat_count_ = 0;
};

inline bool Eventually(const std::function<bool()>& condition) {
  return WaitUntil(condition);
}

class PoolFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/poolXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    state_dir_ = pattern;
  }
  void TearDown() override {
    pool_.reset();
    for (const pid_t pid : seen_pids_) ::kill(pid, SIGKILL);
    std::filesystem::remove_all(state_dir_);
  }

  PoolOptions Options() const {
    PoolOptions options;
    options.state_dir = state_dir_;
    options.worker_binary = BinaryPath("gpupool-fake-worker");
    options.daemon_boot_id = "daemon";
    options.devices = {{.name = "cpu:0", .limit_bytes = 1 << 20}};
    options.ring = {4, 4096};
    options.backoff_min = absl::Milliseconds(20);
    options.orphan_timeout = absl::Seconds(30);
    return options;
  }
  void StartPool(const PoolOptions& options) {
    observer_ = std::make_unique<RecordingObserver>();
    auto pool = WorkerPool::Create(options, observer_.get());
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  void StartReadyPool(const PoolOptions& options) {
    StartPool(options);
    for (const PoolDevice& device : options.devices) {
      ASSERT_TRUE(WaitReady(device.name));
    }
  }
  bool WaitReady(const std::string& device, size_t times = 1) {
    const bool ready =
        Eventually([&] { return observer_->ready(device).size() >= times; });
    if (ready) seen_pids_.push_back(pid(device));
    return ready;
  }
  pid_t pid(const std::string& device) {
    return static_cast<pid_t>(observer_->ready(device).back().pid());
  }

  absl::StatusOr<worker::v1::FromWorker> Ask(
      const std::string& device, worker::v1::ToWorker request,
      absl::Duration timeout = kPatience) {
    std::promise<absl::StatusOr<worker::v1::FromWorker>> answer;
    pool_->Send(device, std::move(request), timeout,
                [&](absl::StatusOr<worker::v1::FromWorker> reply) {
                  answer.set_value(std::move(reply));
                });
    return answer.get_future().get();
  }
  absl::Status StartJob(uint64_t id, uint64_t steps,
                        const std::string& device = "cpu:0",
                        const std::string& name = "") {
    worker::v1::ToWorker request;
    worker::v1::StartJob* job = request.mutable_start_job();
    job->mutable_spec()->set_name(name);
    job->set_job_id(id);
    job->set_attempt(1);
    job->mutable_spec()->mutable_training()->set_steps(steps);
    return Ask(device, std::move(request)).status();
  }
  absl::Status LoadVersion(uint64_t id) {
    worker::v1::ToWorker request;
    request.mutable_load_version()->set_version_id(id);
    return Ask("cpu:0", std::move(request)).status();
  }
  bool WaitEnded(uint64_t job) {
    return Eventually([&] {
      for (const auto& report : observer_->reports()) {
        if (report.job_id() == job && report.has_ended()) return true;
      }
      return false;
    });
  }
  // Waits until the worker has the job's end on disk. It reports the end to no
  // daemon while none listens (report_spool.h has the file's format).
  bool WaitEndSpooled(const std::string& device, uint64_t job) {
    const std::string path = WorkerPathsFor(state_dir_, device)->spool;
    return Eventually([&] {
      std::ifstream file(path, std::ios::binary);
      uint32_t head[2];
      while (file.read(reinterpret_cast<char*>(head), sizeof(head))) {
        std::string record(head[0], 0);
        worker::v1::Report report;
        if (!file.read(record.data(), head[0]) ||
            !report.ParseFromString(record)) {
          return false;
        }
        if (report.job_id() == job && report.has_ended()) return true;
      }
      return false;
    });
  }
  bool WaitProgress(uint64_t job) {
    return Eventually([&] {
      for (const auto& report : observer_->reports()) {
        if (report.job_id() == job && report.has_progress()) return true;
      }
      return false;
    });
  }

  std::string state_dir_;
  std::unique_ptr<RecordingObserver> observer_;
  std::unique_ptr<WorkerPool> pool_;
  std::vector<pid_t> seen_pids_;
};

// Writes a request for version `version_id` with two numbers in and twice these
// out.
inline void FillRow(Slot* slot, uint64_t version_id) {
  SlotHeader& header = slot->header();
  header.version_id = version_id;
  header.rows = 1;
  header.input_count = header.output_count = 1;
  SlotTensor tensor = {};
  tensor.data_type = 1;
  tensor.rank = 2;
  tensor.dims[0] = 1;
  tensor.dims[1] = 2;
  tensor.bytes = 8;
  header.inputs[0] = tensor;
  tensor.offset = 64;
  header.outputs[0] = tensor;
}

}  // namespace gpupool::server::testing_pool
