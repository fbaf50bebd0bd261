// Control's view of the worker pool: a small interface, so that tests can put a
// fake behind it. WorkerPool implements it.
//
// Thread-safety: every method may be called from any thread. Callbacks come
// from the pool's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/ipc/worker_paths.h"

namespace gpupool::worker::v1 {
class FromWorker;
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

// Name of the device whose worker plans and reads datasets.
inline constexpr char kMetaDevice[] = "meta";
// Name of the device whose worker tries versions alone.
inline constexpr auto& kRehearsalDevice = kRehearsalWorker;

struct WorkerStatus {
  enum class State { kStarting, kReady, kBackingOff, kQuarantined, kStopped };
  State state = State::kStarting;
  pid_t pid = 0;          // 0 while there is none
  uint32_t restarts = 0;  // starts after this daemon's first one
  std::string boot_id;    // the worker's; empty before HelloReply
};

class WorkerPort {
 public:
  using ReplyCallback =
      std::function<void(absl::StatusOr<worker::v1::FromWorker>)>;

  virtual ~WorkerPort() = default;

  // Sends a request and calls back with the reply or an error. The pool sets
  // message.request_id.
  //   * the worker's own code and text, when it refused
  //   * Unavailable: the worker is not ready, or was lost before it answered;
  //     it may or may not have acted. A request for the planner waits until
  //     the planner is there
  //   * InvalidArgument: the planner crashed or hung under the request
  //   * DeadlineExceeded: after `timeout`
  //   * NotFound: unknown device
  virtual void Send(const std::string& device, worker::v1::ToWorker message,
                    absl::Duration timeout, ReplyCallback callback) = 0;

  // Sends a message without a reply. Dropped when the worker is not ready.
  virtual void Post(const std::string& device,
                    worker::v1::ToWorker message) = 0;

  // Lets the worker forget the reports up to `through_sequence`, which must be
  // on disk. Remembered for a worker that is away, and sent when it is back.
  virtual void AcknowledgeReports(const std::string& device,
                                  uint64_t through_sequence) = 0;

  // Returns a default WorkerStatus for an unknown device.
  virtual WorkerStatus status(const std::string& device) const = 0;
};

}  // namespace gpupool::server
