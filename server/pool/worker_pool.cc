#include "server/pool/worker_pool.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/worker_paths.h"
#include "server/pool/process.h"
#include "server/pool/worker_link.h"
#include "server/pool/worker_settings.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using Clock = WorkerLink::Clock;

// Longest sleep of the thread.
constexpr std::chrono::milliseconds kMaxPoll{200};

// Returns the time after which a request is not answered any more. The bound
// keeps the sum from overflowing.
Clock::time_point DeadlineOf(absl::Duration timeout) {
  return Clock::now() +
         absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
}

}  // namespace

class WorkerPool::Impl {
 public:
  explicit Impl(PoolOptions options) : options_(std::move(options)) {}
  ~Impl() { Stop(WorkerPool::ShutdownMode::kDetach, absl::ZeroDuration()); }

  absl::Status Init(WorkerObserver* observer);

  // Runs `task` on the pool's thread. Returns false after the shutdown.
  bool Enqueue(std::function<void()> task);
  WorkerLink* Find(const std::string& device) const;
  // A request for a worker, with its deadline.
  struct Request {
    WorkerLink* link;
    worker::v1::ToWorker message;
    Clock::time_point deadline;
    WorkerPort::ReplyCallback callback;
  };
  // Sends the request. One for the planner waits until the planner is there.
  // Runs on the pool's thread.
  void Send(Request request);
  void Stop(WorkerPool::ShutdownMode mode, absl::Duration grace);

 private:
  void Run();
  void PollOnce();
  void RunTasks();
  void SendWaiting();
  bool AllStopped() const;
  void FinishStop();
  void Wake();

  const PoolOptions options_;
  std::map<std::string, std::unique_ptr<WorkerLink>> links_;
  UniqueFd wake_;
  std::thread thread_;
  absl::Mutex stop_mutex_;  // serializes Stop

  absl::Mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = true;

  // Used by the pool's thread.
  bool stopping_ = false;
  Clock::time_point stop_deadline_ = Clock::time_point::max();
  std::vector<Request> waiting_;  // for the planner
};

// Makes one link for each device and starts the thread.
absl::Status WorkerPool::Impl::Init(WorkerObserver* observer) {
  RETURN_IF_ERROR(CheckProgram(options_.worker_binary));
  for (PoolDevice device : options_.devices) {
    device.joins_groups = JoinsGroups(options_, device);
    ASSIGN_OR_RETURN(WorkerPaths paths,
                     WorkerPathsFor(options_.state_dir, device.name));
    auto link = std::make_unique<WorkerLink>(options_, device, std::move(paths),
                                             observer);
    if (!links_.emplace(device.name, std::move(link)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", device.name, " is named twice"));
    }
  }
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) {
    return absl::ResourceExhaustedError("cannot create an eventfd");
  }
  {
    absl::MutexLock lock(&mutex_);
    closed_ = false;
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

bool WorkerPool::Impl::Enqueue(std::function<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
  }
  Wake();
  return true;
}

void WorkerPool::Impl::Wake() {
  const uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof(one)) < 0) {
    spdlog::error("cannot wake the worker pool errno={}", errno);
  }
}

WorkerLink* WorkerPool::Impl::Find(const std::string& device) const {
  const auto it = links_.find(device);
  return it == links_.end() ? nullptr : it->second.get();
}

void WorkerPool::Impl::Run() {
  ::prctl(PR_SET_NAME, "worker-pool");
  for (const auto& [name, link] : links_) link->Start();
  while (!stopping_ || (!AllStopped() && Clock::now() < stop_deadline_)) {
    PollOnce();
  }
  FinishStop();
}

// Sleeps until a descriptor is ready, a link's deadline comes or a task was
// posted; then lets each link look.
void WorkerPool::Impl::PollOnce() {
  std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
  Clock::time_point deadline = Clock::now() + kMaxPoll;
  for (const auto& [name, link] : links_) {
    link->AddPollFds(&fds);
    deadline = std::min(deadline, link->deadline());
  }
  // Tests for min() first, because subtracting from it would overflow.
  const auto wait = std::max<Clock::duration>(
      deadline == Clock::time_point::min() ? Clock::duration::zero()
                                           : deadline - Clock::now(),
      Clock::duration::zero());
  const timespec limit = absl::ToTimespec(absl::FromChrono(wait));
  ::ppoll(fds.data(), fds.size(), &limit, nullptr);
  uint64_t count = 0;
  if (fds[0].revents != 0 && ::read(wake_.get(), &count, sizeof(count)) < 0) {
    spdlog::error("cannot read the pool's eventfd errno={}", errno);
  }
  RunTasks();
  for (const auto& [name, link] : links_) link->HandleReady();
  const Clock::time_point now = Clock::now();
  for (const auto& [name, link] : links_) link->HandleTime(now);
  SendWaiting();
}

void WorkerPool::Impl::Send(Request request) {
  const Clock::time_point now = Clock::now();
  if (request.link->device() == kMetaDevice && request.link->is_coming() &&
      !stopping_ && now < request.deadline &&
      waiting_.size() < kMaxPendingRequests) {
    waiting_.push_back(std::move(request));
    return;
  }
  request.link->Send(std::move(request.message),
                     absl::FromChrono(request.deadline - now),
                     std::move(request.callback));
}

void WorkerPool::Impl::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  // Runs the tasks without the lock, because a task may enqueue another.
  for (const auto& task : tasks) task();
}

bool WorkerPool::Impl::AllStopped() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& entry) { return entry.second->stopped(); });
}

void WorkerPool::Impl::SendWaiting() {
  for (Request& request : std::exchange(waiting_, {})) {
    Send(std::move(request));
  }
}

// Kills the workers that are left and closes the queue. The order matters:
// after the queue is closed no task can come, so the last RunTasks leaves no
// caller without an answer.
void WorkerPool::Impl::FinishStop() {
  for (const auto& [name, link] : links_) {
    if (link->stopped()) continue;
    spdlog::warn("worker did not end in time and is killed device={}", name);
    link->Kill();
  }
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  RunTasks();  // each answers Unavailable
  SendWaiting();
}

// Stops the links and waits for the thread. The links belong to the pool's
// thread, so the stop is posted to it. A second call finds no thread to join.
void WorkerPool::Impl::Stop(WorkerPool::ShutdownMode mode,
                            absl::Duration grace) {
  absl::MutexLock lock(&stop_mutex_);
  if (!thread_.joinable()) return;
  Enqueue([this, mode, grace] {
    stopping_ = true;
    stop_deadline_ = Clock::now() + absl::ToChronoNanoseconds(grace);
    for (const auto& [name, link] : links_) {
      if (mode == WorkerPool::ShutdownMode::kDrain) {
        link->Drain();
      } else {
        link->Detach();
      }
    }
  });
  thread_.join();
}

// ------------------------------------------------------------------ WorkerPool

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(
    PoolOptions options, WorkerObserver* observer) {
  auto impl = std::make_unique<Impl>(std::move(options));
  RETURN_IF_ERROR(impl->Init(observer));
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(impl)));
}

WorkerPool::WorkerPool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WorkerPool::~WorkerPool() = default;

void WorkerPool::Send(const std::string& device, worker::v1::ToWorker message,
                      absl::Duration timeout, ReplyCallback callback) {
  WorkerLink* const link = impl_->Find(device);
  const bool sent =
      link != nullptr &&
      impl_->Enqueue([this, link, message = std::move(message),
                      deadline = DeadlineOf(timeout),
                      callback] {  // a copy, since refusals below need it
        impl_->Send({link, message, deadline, callback});
      });
  if (sent) return;
  callback(link == nullptr
               ? absl::NotFoundError(absl::StrCat("no device ", device))
               : absl::UnavailableError("the server is stopping"));
}

void WorkerPool::Post(const std::string& device, worker::v1::ToWorker message) {
  if (WorkerLink* const link = impl_->Find(device); link != nullptr) {
    impl_->Enqueue(
        [link, message = std::move(message)] { link->Post(message); });
  }
}

void WorkerPool::AcknowledgeReports(const std::string& device,
                                    uint64_t through_sequence) {
  if (WorkerLink* const link = impl_->Find(device); link != nullptr) {
    impl_->Enqueue([link, through_sequence] {
      link->AcknowledgeReports(through_sequence);
    });
  }
}

std::shared_ptr<SlotRingClient> WorkerPool::ring(
    const std::string& device) const {
  const WorkerLink* const link = impl_->Find(device);
  return link == nullptr ? nullptr : link->ring();
}

WorkerStatus WorkerPool::status(const std::string& device) const {
  const WorkerLink* const link = impl_->Find(device);
  return link == nullptr ? WorkerStatus{} : link->status();
}

void WorkerPool::Shutdown(ShutdownMode mode, absl::Duration grace) {
  impl_->Stop(mode, grace);
}

}  // namespace gpupool::server
