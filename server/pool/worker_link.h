// The pool's state of one worker: its process, its connection, its ring, the
// requests that wait for an answer, and the next deadline.
//
//   starting --connected--> greeting --HelloReply--> ready
//   starting, greeting, ready --lost--> backing off --time--> starting
//   starting, greeting, ready --lost, the device is suspect--> quarantined
//   any --lost while draining, or Detach--> stopped
//
// Thread-safety: the pool's thread, except ring() and status(), which any
// thread may call. Owns everything that it names, except options and observer.
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
#include "server/pool/killer_requests.h"
#include "server/pool/process.h"
#include "server/pool/worker_end.h"
#include "server/pool/worker_pool.h"

namespace gpupool::server {

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

  // Adopts a worker that is alive, or spawns one.
  void Start();

  // Adds the descriptors to poll. HandleReady must be called after poll has
  // returned.
  void AddPollFds(std::vector<pollfd>* fds) const;
  void HandleReady();

  // Returns when HandleTime must be called; Clock::time_point::max() for never.
  Clock::time_point deadline() const;
  void HandleTime(Clock::time_point now);

  // Serves the function of WorkerPool with the same name.
  void Send(worker::v1::ToWorker message, absl::Duration timeout,
            ReplyCallback callback);
  void Post(const worker::v1::ToWorker& message);
  void AcknowledgeReports(uint64_t through_sequence);

  // Asks the worker to checkpoint and exit; it is not started again.
  void Drain();
  // Lets go of the worker, which lives on, and stops the link.
  void Detach();
  // Kills the worker and stops the link.
  void Kill();
  bool stopped() const { return state_ == State::kStopped; }
  // Returns whether a worker is on its way.
  bool is_coming() const {
    return state_ == State::kStarting || state_ == State::kGreeting ||
           state_ == State::kBackingOff;
  }

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
    Clock::time_point sent;
    Clock::time_point deadline;
    ReplyCallback callback;
    std::string digest;  // of a request for the planner
  };

  void SetState(State state);
  void TryConnect();
  void Spawn();
  void Greet(ControlChannel channel);
  void BecomeReady(const worker::v1::HelloReply& reply);
  void Receive();
  void Handle(const worker::v1::FromWorker& message);
  void HandleReply(const worker::v1::FromWorker& message);
  absl::Status CheckHello(const worker::v1::FromWorker& message) const;
  void CheckHealth(Clock::time_point now);
  void TakeWorkPage();
  bool HasOutlivedAFault(Clock::time_point now);
  // Returns the text about work that hangs; nothing when none does.
  std::optional<std::string> FindHang() const;
  // Returns whether a waiting request was sent before `begun`.
  bool IsAwaited(Clock::time_point begun) const;
  void BackOff(const absl::Status& reason, const WorkOwner& work);
  void Quarantine(const std::string& text, const WorkOwner& work);
  void ExpireRequests(Clock::time_point now);
  // Returns the answer to the waiting requests of a worker that ended.
  // Notes the request that ended the planner.
  absl::Status AnswerAfter(const WorkerEnd& end);
  // Fails the waiting requests, tells the observer, and backs off or stops.
  void Lose(const absl::Status& reason, bool killed = false);
  // Does the same for a worker that cannot be trusted or does not answer: kills
  // it first.
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
  bool found_alive_ = false;  // whether another daemon has started the worker
  std::optional<Process> process_;
  std::optional<ControlChannel> channel_;
  std::optional<WorkPage> work_;  // the worker's page; outlives the worker
  std::map<uint64_t, Pending> pending_;  // by request id
  KillerRequests killers_;               // of the planner
  uint64_t next_request_id_ = 1;
  uint64_t acknowledged_ = 0;
  uint64_t forwarded_ = 0;
  uint32_t spawns_ = 0;
  absl::Duration backoff_;
  Clock::time_point ready_since_;
  std::optional<Clock::time_point> fault_seen_;  // when seen on the work page
  Clock::time_point last_heard_;
  Clock::time_point start_deadline_;
  Clock::time_point next_try_;  // to connect, or to start again

  mutable absl::Mutex mutex_;
  WorkerStatus status_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SlotRingClient> ring_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
