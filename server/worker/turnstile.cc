#include "server/worker/turnstile.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

constexpr Turnstile::Clock::time_point kNotIdle =
    Turnstile::Clock::time_point::max();

worker::v1::RunningAttempt ViewOf(const JobRunner& job) {
  worker::v1::RunningAttempt attempt;
  attempt.set_job_id(job.job_id());
  attempt.set_attempt(job.attempt());
  attempt.set_step(job.step());
  return attempt;
}

}  // namespace

Turnstile::Turnstile(Engine* engine, JobRunner::ReportSink sink,
                     Clock::duration checkpoint_interval)
    : engine_(engine),
      sink_(std::move(sink)),
      checkpoint_interval_(checkpoint_interval),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      models_(engine),
      started_(Clock::now()),
      idle_since_(started_) {
  GPUPOOL_CHECK(wake_.valid());
}

void Turnstile::Run() {
  {
    absl::MutexLock lock(&mutex_);
    started_ = Clock::now();
    idle_since_ = kNotIdle;
  }
  while (!draining_ || !jobs_.empty()) {
    const bool had_task = RunOneTask();
    if (had_task) UpdateView();
    // Requests come before a step of training, because a step may take long.
    ServeSlots(kMaxSlotsPerTurn);
    if (engine_->exit_code() != 0) break;
    if (!jobs_.empty()) {
      AdvanceOneJob();
    } else if (!had_task && !draining_) {
      WaitForWork();
    }
    UpdateView();
    if (engine_->exit_code() != 0) break;
  }
  // The engine may be gone by a fault; checkpoints in host memory are still
  // written.
  writer_.Finish();
}

void Turnstile::Post(std::function<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  Wake();
}

void Turnstile::Announce(uint64_t job_id, uint32_t attempt) {
  worker::v1::RunningAttempt announced;
  announced.set_job_id(job_id);
  announced.set_attempt(attempt);
  auto abort = std::make_shared<engine::AbortSwitch>();
  absl::MutexLock lock(&mutex_);
  announced_.push_back(std::move(announced));
  // emplace: a repeated attempt keeps its abort, which may be used already.
  aborts_.emplace(std::make_pair(job_id, attempt), std::move(abort));
}

void Turnstile::AbortGroup(uint64_t job_id, uint32_t attempt) {
  const std::shared_ptr<engine::AbortSwitch> abort = AbortOf(job_id, attempt);
  if (abort != nullptr) abort->Abort("this rank was told to stop");
}

std::shared_ptr<engine::AbortSwitch> Turnstile::AbortOf(
    uint64_t job_id, uint32_t attempt) const {
  absl::MutexLock lock(&mutex_);
  const auto it = aborts_.find({job_id, attempt});
  return it == aborts_.end() ? nullptr : it->second;
}

void Turnstile::ForgetAbort(uint64_t job_id, uint32_t attempt) {
  absl::MutexLock lock(&mutex_);
  aborts_.erase({job_id, attempt});
}

void Turnstile::Drain() {
  Post([this] {
    draining_ = true;
    // A job that arrives later is refused by TakeJob.
    for (const auto& job : jobs_) job->Stop(worker::v1::StopJob::DRAIN);
  });
}

void Turnstile::Wake() {
  const uint64_t one = 1;
  // EAGAIN means that the counter is at its maximum. The thread is then woken
  // anyway.
  if (::write(wake_.get(), &one, sizeof(one)) < 0 && errno != EAGAIN) {
    spdlog::error("cannot wake the compute thread errno={}", errno);
  }
}

// Runs one task at most, so that slots are served between tasks.
bool Turnstile::RunOneTask() {
  // The task runs without the lock, since it may post another one.
  std::function<void()> task;
  {
    absl::MutexLock lock(&mutex_);
    if (tasks_.empty()) return false;
    task = std::move(tasks_.front());
    tasks_.pop_front();
  }
  task();
  return true;
}

int Turnstile::ServeSlots(int most) {
  int served = 0;
  for (; ring_ != nullptr && served < most; ++served) {
    std::optional<SlotRequest> request = ring_->Next();
    if (!request.has_value()) break;
    const absl::Status status = models_.Answer(&*request);
    ring_->Complete(*request, status);
  }
  if (ring_ != nullptr && ring_->broken()) {
    spdlog::error("slot ring is corrupt and is dropped");
    SetRing(nullptr);
  }
  return served;
}

void Turnstile::AdvanceOneJob() {
  std::unique_ptr<JobRunner> job = std::move(jobs_.front());
  jobs_.pop_front();
  int slots_left = kMaxSlotsPerTurn;
  const bool goes_on = job->Advance([&] {
    // A fault of the device ends the step, too.
    const int served = engine_->exit_code() == 0 ? ServeSlots(slots_left) : 0;
    slots_left -= served;
    // The step runs on the device, and this loop only asks whether it is done.
    if (served == 0) std::this_thread::yield();
  });
  if (const auto time = job->last_step_time(); time.count() > 0) {
    absl::MutexLock lock(&mutex_);
    ++view_.step_count;
    view_.step_seconds_total += std::chrono::duration<double>(time).count();
  }
  if (goes_on) {
    // Goes to the end of the queue, so that jobs take turns.
    jobs_.push_back(std::move(job));
    return;
  }
  ForgetAbort(job->job_id(), job->attempt());
  if (job->saves()) LetSave(std::move(job));
}

// Moves the attempt from running to saving, and posts its end behind its writes
// on the same thread.
void Turnstile::LetSave(std::shared_ptr<JobRunner> job) {
  const auto is_it = [id = job->job_id()](const auto& attempt) {
    return attempt.job_id() == id;
  };
  {
    absl::MutexLock lock(&mutex_);
    auto& running = view_.running;
    running.erase(std::remove_if(running.begin(), running.end(), is_it),
                  running.end());
    // Both lists change under one lock, so that the attempt is always in one of
    // them.
    view_.saving.push_back(ViewOf(*job));
  }
  writer_.Post([this, job = std::move(job)] {
    job->EndSaved();
    absl::MutexLock lock(&mutex_);
    auto& saving = view_.saving;
    saving.erase(
        std::find_if(saving.begin(), saving.end(), [&job](const auto& attempt) {
          return attempt.job_id() == job->job_id() &&
                 attempt.attempt() == job->attempt();
        }));
  });
}

// Sleeps until a slot or a task comes. Tasks are checked under the lock; one
// that is posted later wakes the sleep.
void Turnstile::WaitForWork() {
  {
    absl::MutexLock lock(&mutex_);
    if (!tasks_.empty()) return;
    idle_since_ = Clock::now();
  }
  UpdateView();
  if (ring_ != nullptr) {
    ring_->Wait(wake_.get(), absl::InfiniteDuration());
  } else {
    pollfd wake = {wake_.get(), POLLIN, 0};
    uint64_t count = 0;
    if (::poll(&wake, 1, -1) > 0 &&
        ::read(wake_.get(), &count, sizeof(count)) < 0) {
      spdlog::error("cannot read the wake eventfd errno={}", errno);
    }
  }
  absl::MutexLock lock(&mutex_);
  idle_time_ += Clock::now() - idle_since_;
  idle_since_ = kNotIdle;
}

void Turnstile::UpdateView() {
  absl::MutexLock lock(&mutex_);
  view_.running.clear();
  for (const auto& job : jobs_) {
    view_.running.push_back(ViewOf(*job));
  }
  view_.loaded_version_ids = models_.ids();
}

TurnstileView Turnstile::view() const {
  absl::MutexLock lock(&mutex_);
  TurnstileView view = view_;
  view.running.insert(view.running.end(), announced_.begin(), announced_.end());
  const Clock::time_point now = Clock::now();
  view.busy_time = now - started_ - idle_time_;
  // The idle time that goes on now is not yet in `idle_time_`.
  if (idle_since_ != kNotIdle) view.busy_time -= now - idle_since_;
  return view;
}

void Turnstile::SetRing(std::unique_ptr<SlotRingServer> ring) {
  ring_memory_.reset();  // before its memory goes
  ring_ = std::move(ring);
  if (ring_ == nullptr) return;
  auto known = engine_->RegisterMemory(ring_->memory());
  if (!known.ok()) {
    spdlog::warn("slot ring is not pinned, requests are staged error=\"{}\"",
                 known.status().ToString());
    return;
  }
  ring_memory_ = *std::move(known);
  if (ring_memory_ != nullptr) {
    spdlog::info("slot ring pinned bytes={}", ring_->memory().size());
  }
}

absl::Status Turnstile::StartJob(worker::v1::StartJob request) {
  const uint64_t id = request.job_id();
  const uint32_t attempt = request.attempt();
  const absl::Status taken = TakeJob(std::move(request));
  if (!taken.ok()) ForgetAbort(id, attempt);
  UpdateView();  // first, so that it is in the view throughout
  absl::MutexLock lock(&mutex_);
  const auto announced = std::find_if(
      announced_.begin(), announced_.end(), [&](const auto& candidate) {
        return candidate.job_id() == id && candidate.attempt() == attempt;
      });
  if (announced != announced_.end()) announced_.erase(announced);
  return taken;
}

absl::Status Turnstile::TakeJob(worker::v1::StartJob request) {
  if (draining_) {
    return absl::UnavailableError("the worker is shutting down");
  }
  for (const auto& job : jobs_) {
    if (job->job_id() != request.job_id()) continue;
    // The same attempt is asked for again when its first answer was lost.
    if (job->attempt() == request.attempt()) return absl::OkStatus();
    const std::string text = absl::StrCat(
        "attempt ", job->attempt(), " of job ", job->job_id(),
        " runs here; attempt ", request.attempt(), " cannot start");
    return job->attempt() > request.attempt()
               ? absl::AbortedError(text)
               : absl::FailedPreconditionError(text);
  }
  auto abort = AbortOf(request.job_id(), request.attempt());
  jobs_.push_back(std::make_unique<JobRunner>(
      std::move(request),
      JobRunner::Environment{engine_, sink_, &writer_, checkpoint_interval_},
      std::move(abort)));
  return absl::OkStatus();
}

absl::StatusOr<JobRunner*> Turnstile::FindJob(uint64_t job_id,
                                              uint32_t attempt) const {
  const auto job = std::find_if(
      jobs_.begin(), jobs_.end(),
      [&](const auto& candidate) { return candidate->job_id() == job_id; });
  if (job == jobs_.end()) {
    return absl::NotFoundError(
        absl::StrCat("job ", job_id, " does not run on this device now"));
  }
  if ((*job)->attempt() != attempt) {
    return absl::AbortedError(absl::StrCat("attempt ", (*job)->attempt(),
                                           " of job ", job_id,
                                           " runs here, not ", attempt));
  }
  return job->get();
}

absl::Status Turnstile::StopJob(const worker::v1::StopJob& request) {
  ASSIGN_OR_RETURN(JobRunner* const job,
                   FindJob(request.job_id(), request.attempt()));
  job->Stop(request.reason() == worker::v1::StopJob::DRAIN
                ? worker::v1::StopJob::DRAIN
                : worker::v1::StopJob::CANCELLED);
  return absl::OkStatus();
}

void Turnstile::ProfileJob(const worker::v1::ProfileJob& request,
                           JobRunner::ProfileSink done) {
  const absl::StatusOr<JobRunner*> job =
      FindJob(request.job_id(), request.attempt());
  if (!job.ok()) return done(job.status());
  (*job)->Profile(request.steps(), std::move(done));
}

}  // namespace gpupool::server
