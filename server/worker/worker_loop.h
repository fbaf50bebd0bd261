// The worker's control thread: takes daemons' connections, dispatches their
// requests, and sends replies, reports and heartbeats. Long work is given to
// the compute thread (Turnstile), so that a heartbeat is never late because the
// engine is busy. A side thread reads datasets and writes dumps of memory, so
// that a huge one delays no plan and no training step.
//
// Thread-safety: one thread, which Run occupies. Owns the other threads, the
// spool and the connections. The engine must outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/ipc/control_channel.h"
#include "server/worker/bench_run.h"
#include "server/worker/device_monitor.h"
#include "server/worker/engine.h"
#include "server/worker/model_profile_run.h"
#include "server/worker/outbox.h"
#include "server/worker/report_spool.h"
#include "server/worker/side_thread.h"
#include "server/worker/turnstile.h"

namespace gpupool::server {

struct WorkerLoopOptions {
  std::string device;
  std::string boot_id;
  // Time without a connected daemon and without a job after which the worker
  // ends.
  absl::Duration orphan_timeout = absl::Seconds(60);
  // Time between checkpoints of jobs without an interval of their own; zero:
  // none.
  absl::Duration checkpoint_interval;
  absl::Duration heartbeat_interval = absl::Milliseconds(200);
  // Interval between questions for the device's readings.
  absl::Duration readings_interval = absl::Seconds(1);
  // Descriptor that is readable when the process must end (a signalfd); -1:
  // none.
  int stop_fd = -1;
  // Work page, sent to each daemon that says Hello; -1: none.
  int work_fd = -1;
  bool joins_groups = false;  // see WorkerOptions
};

class WorkerLoop {
 public:
  WorkerLoop(WorkerLoopOptions options, Engine* engine,
             ControlListener listener, ReportSpool spool);
  ~WorkerLoop();

  // Runs until Shutdown, a stop signal or the orphan timeout. Then all jobs
  // have been checkpointed and all reports are in the spool. Also returns when
  // a fault of the device has ended the engine; then this object must not be
  // destroyed, since models and jobs would use the device once more.
  void Run();

 private:
  using Clock = std::chrono::steady_clock;

  void PollOnce();
  void Accept();
  void ReceiveFrom(std::optional<ControlChannel>* channel);
  void Handle(worker::v1::ToWorker request);
  void HandleHello(const worker::v1::ToWorker& request);
  // Answers the request at once on this thread. Returns false when it must be
  // handled elsewhere.
  bool HandleNow(const worker::v1::ToWorker& request);
  void HandleOnComputeThread(worker::v1::ToWorker request);
  void HandleOnSideThread(worker::v1::ToWorker request);
  // Answers when the steps are made. The compute thread does not wait for them.
  void HandleProfile(worker::v1::ToWorker request);
  // Answers when the device is measured, piece by piece beside other work.
  void HandleBench(worker::v1::ToWorker request);
  // Answers when the requests of the profile are computed, one by one beside
  // other work.
  void HandleModelProfile(worker::v1::ToWorker request);
  absl::StatusOr<worker::v1::FromWorker> Compute(worker::v1::ToWorker* request);
  absl::StatusOr<worker::v1::FromWorker> WorkAside(
      const worker::v1::ToWorker& request);
  absl::StatusOr<std::unique_ptr<SlotRingServer>> TakeRing(
      const worker::v1::Hello& hello);
  worker::v1::FromWorker HelloReply();
  void AddEndedAttempts(worker::v1::HelloReply* reply) const;
  void HandleOutbox();
  void ResendReports();
  void SendHeartbeat(Clock::time_point now);
  double Utilization(Clock::time_point now, std::chrono::nanoseconds busy_time);
  void Send(const worker::v1::FromWorker& message,
            absl::Span<const int> descriptors = {});
  void Disconnect(const absl::Status& reason);
  void CheckOrphan(Clock::time_point now);
  void BeginDrain(const char* reason);
  void FlushBeforeExit();

  const WorkerLoopOptions options_;
  Engine* const engine_;
  ControlListener listener_;
  ReportSpool spool_;
  Outbox outbox_;
  Turnstile turnstile_;
  BenchRun bench_run_;
  ModelProfileRun model_profile_run_;
  std::thread compute_thread_;
  SideThread side_thread_{"side"};
  DeviceMonitor monitor_;

  std::optional<ControlChannel> channel_;    // has said Hello
  std::optional<ControlChannel> candidate_;  // has not yet
  uint64_t connection_ = 0;
  bool draining_ = false;
  Clock::time_point next_heartbeat_;
  Clock::time_point wanted_at_;  // last time with a daemon or a job
  std::deque<std::pair<Clock::time_point, std::chrono::nanoseconds>> busy_;
};

}  // namespace gpupool::server
