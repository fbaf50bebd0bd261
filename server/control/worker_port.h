// What control needs of the worker pool: a small door, so that tests can put a
// fake behind it. server.cc passes WorkerPoolPort(pool).
//
// Thread-safety: every method may be called from any thread. Callbacks come
// from the pool's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/pool/worker_pool.h"

namespace gpupool::server {

// The device name of the worker that plans and reads datasets.
inline constexpr char kMetaDevice[] = "meta";

class WorkerPort {
 public:
  using ReplyCallback =
      std::function<void(absl::StatusOr<worker::v1::FromWorker>)>;

  virtual ~WorkerPort() = default;
  // As WorkerPool::Send, Post, AcknowledgeReports and status.
  virtual void Send(const std::string& device, worker::v1::ToWorker message,
                    absl::Duration timeout, ReplyCallback callback) = 0;
  virtual void Post(const std::string& device,
                    worker::v1::ToWorker message) = 0;
  virtual void AcknowledgeReports(const std::string& device,
                                  uint64_t through_sequence) = 0;
  virtual WorkerStatus status(const std::string& device) const = 0;
};

// Does not own the pool, which must live until the control loop has stopped.
class WorkerPoolPort : public WorkerPort {
 public:
  explicit WorkerPoolPort(WorkerPool* pool) : pool_(pool) {}

  void Send(const std::string& device, worker::v1::ToWorker message,
            absl::Duration timeout, ReplyCallback callback) override {
    pool_->Send(device, std::move(message), timeout, std::move(callback));
  }
  void Post(const std::string& device, worker::v1::ToWorker message) override {
    pool_->Post(device, std::move(message));
  }
  void AcknowledgeReports(const std::string& device,
                          uint64_t through_sequence) override {
    pool_->AcknowledgeReports(device, through_sequence);
  }
  WorkerStatus status(const std::string& device) const override {
    return pool_->status(device);
  }

 private:
  WorkerPool* pool_;
};

}  // namespace gpupool::server
