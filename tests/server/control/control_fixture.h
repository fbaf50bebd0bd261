// A control loop on a real store in a temporary folder, with fake workers and a
// serving sink that records its calls. Restart() ends the loop and makes a new
// one on the same store, as after a crash.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "server/control/calls/context.h"
#include "server/control/control_loop.h"
#include "server/control/serving_sink.h"
#include "server/metrics/metrics.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"
#include "tests/server/control/fake_workers.h"
#include "tests/wait_until.h"

namespace gpupool::server {

class FakeSink : public ServingSink {
 public:
  void VersionReady(const v1::ModelVersion& version,
                    const std::string& device) override {
    std::lock_guard lock(mutex_);
    served_[version.id()] = device;
    lost_.erase(version.id());
  }
  void VersionDraining(uint64_t id, std::function<void()> drained) override {
    {
      std::lock_guard lock(mutex_);
      served_.erase(id);
      lost_.erase(id);
    }
    drained();
  }
  void WorkerLost(const std::string& device) override {
    std::lock_guard lock(mutex_);
    std::erase_if(served_, [&](auto& item) {
      if (item.second != device) return false;
      lost_.insert(item.first);
      return true;
    });
  }
  std::map<uint64_t, std::string> served() {
    std::lock_guard lock(mutex_);
    return served_;
  }
  // Returns the versions whose worker was lost, and whose requests wait for the
  // next one.
  std::set<uint64_t> lost() {
    std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  std::mutex mutex_;
  std::set<uint64_t> lost_;
  std::map<uint64_t, std::string> served_;
};

// Passes a callback's answer to the waiting test.
template <typename T>
class Answer {
 public:
  std::function<void(absl::StatusOr<T>)> callback() {
    return [promise = promise_](absl::StatusOr<T> answer) {
      promise->set_value(std::move(answer));
    };
  }
  absl::StatusOr<T> Wait() {
    if (future_.wait_for(absl::ToChronoSeconds(kPatience)) !=
        std::future_status::ready) {
      return absl::InternalError("the test got no answer");
    }
    return future_.get();
  }
  // Waits for some time for an answer that must not come. Returns whether it
  // came.
  bool CameTooEarly() {
    LetOthersRun();
    return future_.wait_for(std::chrono::seconds::zero()) ==
           std::future_status::ready;
  }

 private:
  std::shared_ptr<std::promise<absl::StatusOr<T>>> promise_ =
      std::make_shared<std::promise<absl::StatusOr<T>>>();
  std::future<absl::StatusOr<T>> future_ = promise_->get_future();
};

// Waits until the condition holds. Returns false if it does not.
bool Eventually(const std::function<bool()>& condition);

class ControlTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kLimit = 1000;

  void SetUp() override;
  void TearDown() override;

  void StartLoop();
  // Ends the loop like kill -9: nobody is notified, and the store stays.
  void Restart();

  // A worker of `device` connects with the attempts that it holds.
  void Hello(const std::string& device,
             std::vector<std::pair<uint64_t, uint32_t>> running = {},
             std::vector<uint64_t> loaded = {});
  void Report(const std::string& device, worker::v1::Report report);
  void ReportStarted(uint64_t job, uint32_t attempt);
  void ReportProgress(uint64_t job, uint32_t attempt, uint64_t step);
  void ReportCheckpoint(uint64_t job, uint32_t attempt, uint64_t step);
  struct EndDetails {
    v1::JobError error = {};
    std::string device = "cpu:0";
  };
  void ReportEnded(uint64_t job, uint32_t attempt,
                   worker::v1::JobEnded::Outcome outcome,
                   const EndDetails& details);
  void ReportEnded(uint64_t job, uint32_t attempt,
                   worker::v1::JobEnded::Outcome outcome) {
    ReportEnded(job, attempt, outcome, EndDetails());
  }

  const ControlContext& control() const { return loop->context(); }

  void AddDataset(const std::string& name);
  v1::SubmitJobRequest Request(const std::string& request_id);
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request);
  // Submits, and takes the StartJob that must follow.
  v1::Job SubmitAndStart(const v1::SubmitJobRequest& request);
  // Returns a job that ran to its end with one checkpoint.
  v1::Job FinishedJob(const std::string& request_id, bool publish);
  // Answers the LoadVersion that must have been sent, and returns its version.
  uint64_t AnswerLoad(const std::string& device,
                      const absl::Status& status = absl::OkStatus());
  // Waits until the job is in the state.
  bool Becomes(uint64_t job, v1::JobState state);
  bool VersionBecomes(const std::string& model, uint64_t number,
                      v1::VersionState state);

  std::filesystem::path folder;
  std::unique_ptr<Store> store;
  std::unique_ptr<BlobStore> blobs;
  ControlOptions options{.queue_limit = 4096};
  std::unique_ptr<FakeWorkers> workers;
  std::unique_ptr<FakeSink> sink;
  std::unique_ptr<Metrics> metrics;  // of the loop, since its start
  Tracer* tracer = nullptr;          // of the loop, if it is set before SetUp
  std::unique_ptr<ControlLoop> loop;
  uint64_t planned_bytes = 100;
  // Answers rehearsals, if it is set before SetUp. Else no job is rehearsed,
  // and versions pass.
  std::function<absl::StatusOr<worker::v1::FromWorker>(
      const worker::v1::ToWorker&)>
      rehearsal;
  uint64_t sequence = 0;
};

}  // namespace gpupool::server
