// What the pool knows of one worker: its process, its connection, its ring,
// the requests that wait for an answer, and when to do what next.
//
//   starting --connected--> greeting --HelloReply--> ready
//   starting, greeting, ready --lost--> backing off --time--> starting
//   starting, greeting, ready --lost, the device is suspect--> quarantined
//   any --lost while draining, or Detach--> stopped
//
// Thread-safety: the pool's thread, but ring() and status(), which any thread
// may call. Owns everything it names but options and observer.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/ipc/control_channel.h"
#include "server/ipc/slot_ring.h"
#include "server/ipc/work_page.h"
#include "server/ipc/worker_paths.h"
#include "server/pool/process.h"
#include "server/pool/worker_pool.h"

namespace gpupool::server {

inline constexpr uint32_t kWorkerProtocolVersion = 1;
inline constexpr size_t kMaxPendingRequests = 4096;

class WorkerLink {
 public:
  using Clock = std::chrono::steady_clock;
  using ReplyCallback = WorkerPool::ReplyCallback;

  // `options` and `observer` must outlive the link.
  WorkerLink(const PoolOptions& options, const PoolDevice& device,
             WorkerPaths paths, WorkerObserver* observer);
  ~WorkerLink();

  const std::string& device() const { return device_.name; }

  // Adopts the worker that lives already, or spawns one.
  void Start();

  // Descriptors to poll, and then what to do when poll has returned.
  void AddPollFds(std::vector<pollfd>* fds) const;
  void HandleReady();

  // When HandleTime wants to be called; Clock::time_point::max() for never.
  Clock::time_point deadline() const;
  void HandleTime(Clock::time_point now);

  // As in WorkerPool.
  void Send(worker::v1::ToWorker message, absl::Duration timeout,
            ReplyCallback callback);
  void Post(const worker::v1::ToWorker& message);
  void AcknowledgeReports(uint64_t through_sequence);

  // Asks the worker to checkpoint and exit; it is not started again.
  void Drain();
  // Lets go of the worker, which lives on. The link is stopped.
  void Detach();
  // Kills the worker. The link is stopped.
  void Kill();
  bool stopped() const { return state_ == State::kStopped; }

  std::shared_ptr<SlotRingClient> ring() const;
  WorkerStatus status() const;

 private:
  enum class State {
    kStarting,
    kGreeting,
    kReady,
    kBackingOff,
    kQuarantined,
    kStopped
  };
  struct Pending {
    Clock::time_point deadline;
    ReplyCallback callback;
  };

  void SetState(State state);
  void TryConnect();
  std::vector<std::string> Arguments() const;
  void Spawn();
  void Greet(ControlChannel channel);
  void BecomeReady(const worker::v1::HelloReply& reply);
  void Receive();
  void Handle(const worker::v1::FromWorker& message);
  void HandleReply(const worker::v1::FromWorker& message);
  absl::Status CheckHello(const worker::v1::FromWorker& message) const;
  absl::Status CheckSettings(const worker::v1::HelloReply& hello) const;
  void CheckHealth(Clock::time_point now);
  void TakeWorkPage();
  bool HasOutlivedAFault(Clock::time_point now);
  // What to say of work that takes too long; nothing while none does.
  std::optional<std::string> FindHang() const;
  void BackOff(const absl::Status& reason);
  void Quarantine(const std::string& text);
  void ExpireRequests(Clock::time_point now);
  // Fails what waits, tells the observer and goes to backing off or stopped.
  void Lose(const absl::Status& reason);
  // As Lose, for a worker that cannot be trusted or does not answer.
  void KillAndLose(const absl::Status& reason);
  void DropConnection(const absl::Status& reason);
  absl::Status SendNow(const worker::v1::ToWorker& message,
                       absl::Span<const int> descriptors = {});

  const PoolOptions& options_;
  const PoolDevice device_;
  const WorkerPaths paths_;
  WorkerObserver* const observer_;

  State state_ = State::kStarting;
  bool draining_ = false;
  bool more_to_read_ = false;
  bool found_alive_ = false;  // the worker, which another daemon has started
  std::optional<Process> process_;
  std::optional<ControlChannel> channel_;
  std::optional<WorkPage> work_;         // of the worker's; outlives it
  std::map<uint64_t, Pending> pending_;  // by request id
  uint64_t next_request_id_ = 1;
  uint64_t acknowledged_ = 0;
  uint64_t forwarded_ = 0;
  uint32_t spawns_ = 0;
  absl::Duration backoff_;
  Clock::time_point ready_since_;
  std::optional<Clock::time_point> fault_seen_;  // on the work page
  Clock::time_point last_heard_;
  Clock::time_point start_deadline_;
  Clock::time_point next_try_;  // of connecting, or of starting again

  mutable absl::Mutex mutex_;
  WorkerStatus status_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SlotRingClient> ring_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
