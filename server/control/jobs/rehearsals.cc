#include "server/control/jobs/rehearsals.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/control/calls/log.h"
#include "server/metrics/metrics.h"
#include "server/pool/worker_port.h"

namespace gpupool::server {
namespace {

// Ends of the worker for which the version or job is not to blame, after which
// it is not tried again.
constexpr int kMostUnexplainedEnds = 3;
// SIGKILLs from outside after which it is not tried again.
constexpr int kMostKills = 2;
// End of a worker whose rehearsal has passed its limit of time.
constexpr char kAlarm[] = "killed by signal 14";

absl::string_view Meaning(const absl::Status& reason) {
  return absl::StrContains(reason.message(), kAlarm)
             ? ", which means that it took too long"
             : "";
}

// Returns whether the server killed the process because it sent no heartbeats
// or hung. Such a process may only have waited for a processor, because the
// rehearsal's own alarm ends one that hangs.
bool WasKilledByServer(const absl::Status& reason) {
  return absl::IsDeadlineExceeded(reason) ||
         absl::StrContains(reason.message(), kNoHeartbeat);
}

}  // namespace

void Rehearsals::Start(WorkerPort* workers, Metrics* metrics) {
  workers_ = workers;
  metrics_ = metrics;
  absl::MutexLock lock(&mutex_);
  TellOfWaiting();
}

void Rehearsals::TellOfWaiting() {
  if (metrics_ != nullptr) metrics_->SetRehearsals(waiting_.size());
}

void Rehearsals::Add(worker::v1::LoadVersion version, Done done) {
  worker::v1::ToWorker message;
  *message.mutable_load_version() = std::move(version);
  Append(std::move(message), std::move(done));
}

void Rehearsals::AddTraining(worker::v1::PlanTraining job, Done done) {
  worker::v1::ToWorker message;
  *message.mutable_plan_training() = std::move(job);
  message.mutable_plan_training()->set_make_step(true);
  Append(std::move(message), std::move(done));
}

void Rehearsals::Append(worker::v1::ToWorker message, Done done) {
  if (workers_ == nullptr) {
    return done(absl::UnavailableError("the server is starting"));
  }
  bool is_first = false;
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t id = ++last_id_;
    if (message.has_load_version()) {
      message.mutable_load_version()->set_version_id(id);
    }
    std::string tenant = message.plan_training().spec().tenant();
    waiting_.push_back(
        {id, std::move(message), std::move(tenant), std::move(done)});
    is_first = waiting_.size() == 1;
    TellOfWaiting();
  }
  if (is_first) SendFirst();
}

void Rehearsals::SendFirst() {
  worker::v1::ToWorker message;
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    message = waiting_.front().message;
    id = waiting_.front().id;
  }
  // The worker itself keeps the limit of time.
  workers_->Send(
      kRehearsalDevice, std::move(message), absl::InfiniteDuration(),
      [this, id](const absl::StatusOr<worker::v1::FromWorker>& reply) {
        TakeReply(id, reply.status());
      });
}

// Ends the rehearsal, unless the worker is gone. Then it begins again with the
// next worker, or WorkerIsLost ends it.
void Rehearsals::TakeReply(uint64_t id, const absl::Status& status) {
  if (absl::IsUnavailable(status)) return;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty() || waiting_.front().id != id) return;
  }
  EndFirst(status);
}

void Rehearsals::PutOthersFirst(const std::string& tenant) {
  const auto other = std::find_if(
      waiting_.begin(), waiting_.end(),
      [&](const Rehearsal& waiting) { return waiting.tenant != tenant; });
  if (other == waiting_.end()) return;
  std::rotate(waiting_.begin(), other, other + 1);
}

void Rehearsals::EndFirst(const absl::Status& status) {
  Done done;
  bool are_more = false;
  {
    absl::MutexLock lock(&mutex_);
    done = std::move(waiting_.front().done);
    if (metrics_ != nullptr) {
      const bool is_job = waiting_.front().message.has_plan_training();
      metrics_->CountRehearsal(is_job ? "job" : "version", status);
    }
    const std::string tenant = std::move(waiting_.front().tenant);
    waiting_.pop_front();
    PutOthersFirst(tenant);
    TellOfWaiting();
    are_more = !waiting_.empty();
  }
  done(status);
  // Append has sent a rehearsal that came after the lock was given back.
  if (are_more) SendFirst();
}

void Rehearsals::WorkerIsReady() { SendFirst(); }

std::optional<absl::Status> Rehearsals::EndAfterLoss(const absl::Status& reason,
                                                     const WorkOwner& work) {
  Rehearsal& first = waiting_.front();
  const bool is_job = first.message.has_plan_training();
  const char* const tried =
      is_job ? "one step of it was made alone" : "it was loaded and run alone";
  bool is_its_work = is_job ? work.job_id != 0 : work.version_id == first.id;
  if (WasKilledFromOutside(reason) && !WasKilledByServer(reason)) {
    // The owner of a batch that was killed is not known (SuspectOf).
    is_its_work |= !is_job && work == WorkOwner();
    if (is_its_work && ++first.kills < kMostKills) {
      LogWarning(absl::StrCat(
          "event=rehearsal_killed kind=", is_job ? "job" : "version",
          " reason=\"", reason.message(), "\" it is tried once more"));
      return std::nullopt;
    }
    if (is_its_work) {
      return absl::ResourceExhaustedError(absl::StrCat(
          tried, " ", first.kills,
          " times, and each time something outside of the server killed the "
          "process: ",
          reason.message(),
          ". The system does that when memory runs out. Free memory and ",
          is_job ? "submit the job again"
                 : "upload, promote or load (`gpupool models load`) it again",
          ": it is then tried anew"));
    }
  } else if (is_its_work && !WasKilledByServer(reason)) {
    return absl::InvalidArgumentError(
        absl::StrCat(tried, ", and that ended the process: ", reason.message(),
                     Meaning(reason)));
  }
  if (++first.unexplained_ends < kMostUnexplainedEnds) return std::nullopt;
  return absl::UnavailableError(
      absl::StrCat("it could not be tried alone, the process ended before: ",
                   reason.message()));
}

void Rehearsals::WorkerIsLost(const absl::Status& reason,
                              const WorkOwner& work) {
  std::optional<absl::Status> end;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    end = EndAfterLoss(reason, work);
  }
  if (end.has_value()) EndFirst(*end);
}

}  // namespace gpupool::server
