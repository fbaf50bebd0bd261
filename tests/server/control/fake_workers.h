// Workers that a test controls: they record the messages that they get, and
// answer when the test says so. Planning is answered at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpupool/worker/v1/worker.pb.h"
#include "server/pool/worker_port.h"
#include "tests/wait_until.h"

namespace gpupool::server {

class FakeWorkers : public WorkerPort {
 public:
  struct Pending {
    std::string device;
    worker::v1::ToWorker message;
    ReplyCallback callback;
  };

  // Called for PlanTraining, PlanInference and InspectDataset.
  std::function<absl::StatusOr<worker::v1::FromWorker>(
      const worker::v1::ToWorker&)>
      meta;

  // Called for rehearsals.
  std::function<absl::StatusOr<worker::v1::FromWorker>(
      const worker::v1::ToWorker&)>
      rehearsal =
          [](const worker::v1::ToWorker&) { return worker::v1::FromWorker(); };

  void Send(const std::string& device, worker::v1::ToWorker message,
            absl::Duration timeout, ReplyCallback callback) override {
    if (device == kMetaDevice) {
      {
        std::lock_guard lock(mutex_);
        meta_timeouts_.push_back(timeout);
      }
      return callback(meta(message));
    }
    if (device == kRehearsalDevice) return callback(rehearsal(message));
    std::lock_guard lock(mutex_);
    pending_.push_back({device, std::move(message), std::move(callback)});
    changed_.notify_all();
  }
  void Post(const std::string& device, worker::v1::ToWorker message) override {
    std::lock_guard lock(mutex_);
    posted_.push_back({device, std::move(message), nullptr});
    changed_.notify_all();
  }
  void AcknowledgeReports(const std::string& device,
                          uint64_t through_sequence) override {
    std::lock_guard lock(mutex_);
    acknowledged_[device] = through_sequence;
    changed_.notify_all();
  }
  WorkerStatus status(const std::string&) const override { return {}; }

  // Returns the next message that was sent or posted. False if none comes.
  bool NextPost(Pending& post) { return Next(posted_, post); }
  bool NextSend(Pending& send) { return Next(pending_, send); }
  size_t posts() {
    std::lock_guard lock(mutex_);
    return posted_.size();
  }
  size_t sends() {
    std::lock_guard lock(mutex_);
    return pending_.size();
  }
  // Returns the timeouts of the requests to the meta worker, and forgets them.
  std::vector<absl::Duration> TakeMetaTimeouts() {
    std::lock_guard lock(mutex_);
    return std::exchange(meta_timeouts_, {});
  }
  bool WaitAcknowledged(const std::string& device, uint64_t sequence) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoSeconds(kPatience),
                             [&] { return acknowledged_[device] >= sequence; });
  }

 private:
  bool Next(std::vector<Pending>& from, Pending& to) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, absl::ToChronoSeconds(kPatience),
                           [&] { return !from.empty(); })) {
      return false;
    }
    to = std::move(from.front());
    from.erase(from.begin());
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Pending> pending_;
  std::vector<Pending> posted_;
  std::map<std::string, uint64_t> acknowledged_;
  std::vector<absl::Duration> meta_timeouts_;
};

}  // namespace gpupool::server
