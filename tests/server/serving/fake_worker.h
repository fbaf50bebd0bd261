// A worker of the slot ring inside the test's process: a thread that answers
// requests by a rule. The ring is the real one.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/v1/model.pb.h"
#include "server/ipc/slot_ring.h"
#include "server/ipc/slot_ring_server.h"

namespace gpupool::server {

class FakeWorker {
 public:
  // Returns the status of the answer. OK also fills the outputs: each number of
  // output 0 is twice the number of input 0 at the same place, which is a float
  // unless the slot says INT32 or INT64.
  using Rule = std::function<absl::Status(const SlotRequest& request)>;

  explicit FakeWorker(SlotRingOptions options = {.slot_count = 8,
                                                 .slot_bytes = 1 << 16}) {
    ring_ = *SlotRingClient::Create(options);
    const auto fds = ring_->descriptors();
    server_ = *SlotRingServer::Attach(
        UniqueFd(dup(fds[0])), UniqueFd(dup(fds[1])), UniqueFd(dup(fds[2])));
    thread_ = std::thread([this] { Run(); });
  }

  ~FakeWorker() {
    stop_ = true;
    {
      absl::MutexLock lock(&mutex_);
      paused_ = false;
    }
    thread_.join();
    ring_->FailAll(absl::UnavailableError("worker lost"));
  }

  std::shared_ptr<SlotRingClient> ring() { return ring_; }

  void SetRule(Rule rule) {
    absl::MutexLock lock(&mutex_);
    rule_ = std::move(rule);
  }
  // Pauses the worker. Requests that arrive meanwhile wait in the ring.
  void Pause() {
    absl::MutexLock lock(&mutex_);
    paused_ = true;
  }
  void Resume() {
    absl::MutexLock lock(&mutex_);
    paused_ = false;
  }
  // Fails all requests, as the pool does when the worker's process has ended.
  void Die() { ring_->FailAll(absl::UnavailableError("worker lost")); }

  // Returns the rows of each batch that was answered so far.
  std::vector<uint32_t> batches() const {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }

 private:
  void Run() {
    while (!stop_) {
      server_->Wait(/*wake_fd=*/-1, absl::Milliseconds(5));
      while (!stop_ && server_->HasRequests()) {
        absl::MutexLock lock(&mutex_);
        if (mutex_.AwaitWithTimeout(
                absl::Condition(
                    +[](bool* paused) { return !*paused; }, &paused_),
                absl::Milliseconds(5))) {
          Answer();
        }
      }
    }
  }

  void Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::optional<SlotRequest> request = server_->Next();
    if (!request.has_value()) return;
    batches_.push_back(request->header.rows);
    const absl::Status status = rule_ ? rule_(*request) : absl::OkStatus();
    if (status.ok()) Compute(*request);
    request->header.compute_nanos = 1000;
    server_->Complete(*request, status);
  }

  static void Compute(const SlotRequest& request) {
    const uint32_t type = request.header.inputs[0].data_type;
    // Unsigned, so that numbers may overflow.
    if (type == v1::INT32) return Double<uint32_t>(request);
    if (type == v1::INT64) return Double<uint64_t>(request);
    Double<float>(request);
  }

  template <typename Number>
  static void Double(const SlotRequest& request) {
    const SlotTensor& in = request.header.inputs[0];
    const SlotTensor& out = request.header.outputs[0];
    std::vector<Number> values(in.bytes / sizeof(Number));
    std::memcpy(values.data(), request.payload.data() + in.offset, in.bytes);
    for (Number& value : values) value *= 2;
    std::memcpy(request.payload.data() + out.offset, values.data(),
                std::min(in.bytes, out.bytes));
  }

  std::shared_ptr<SlotRingClient> ring_;
  std::unique_ptr<SlotRingServer> server_;
  std::atomic<bool> stop_{false};
  mutable absl::Mutex mutex_;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  Rule rule_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> batches_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace gpupool::server
