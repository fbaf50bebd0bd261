// Profiles a loaded version. Each of its requests is a task of the compute
// thread, so that training steps and requests of clients take turns with them.
//
// Thread-safety: Start may be called from any thread. The turnstile must
// outlive the object, which must outlive the turnstile's last task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {

class Turnstile;

class ModelProfileRun {
 public:
  using Done = std::function<void(absl::StatusOr<worker::v1::ProfileReply>)>;

  explicit ModelProfileRun(Turnstile* turnstile) : turnstile_(turnstile) {}

  // Computes the requests, and calls `done` on the compute thread with the
  // trace or with the first error: NOT_FOUND when the version is not loaded, or
  // not any more, else those of engine::ServedModel. A turnstile that ends
  // meanwhile drops the rest, and `done` with it.
  void Start(const worker::v1::ProfileModel& request, Done done);

 private:
  struct Run {
    worker::v1::ProfileModel request;
    uint32_t made = 0;
    Done done;
  };
  void Begin(std::shared_ptr<Run> run);
  void ComputeNext(std::shared_ptr<Run> run);
  absl::StatusOr<worker::v1::ProfileReply> Take(const Run& run);

  Turnstile* const turnstile_;
};

}  // namespace gpupool::server
