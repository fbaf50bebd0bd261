#include "server/control/models/rehearsals.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/pool/worker_port.h"

namespace gpupool::server {
namespace {

// Ends of the worker that are not the version's, after which it is not tried
// again.
constexpr int kMostUnexplainedEnds = 3;
// End of a worker whose rehearsal has passed its limit of time.
constexpr char kAlarm[] = "killed by signal 14";

}  // namespace

void Rehearsals::Start(WorkerPort* workers) { workers_ = workers; }

void Rehearsals::Add(worker::v1::LoadVersion version, Done done) {
  if (workers_ == nullptr) {
    return done(absl::UnavailableError("the server is starting"));
  }
  bool is_first = false;
  {
    absl::MutexLock lock(&mutex_);
    version.set_version_id(++last_id_);
    waiting_.push_back({std::move(version), std::move(done)});
    is_first = waiting_.size() == 1;
  }
  if (is_first) SendFirst();
}

void Rehearsals::SendFirst() {
  worker::v1::ToWorker message;
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    *message.mutable_load_version() = waiting_.front().version;
    id = waiting_.front().version.version_id();
  }
  // The worker itself keeps the limit of time.
  workers_->Send(
      kRehearsalDevice, std::move(message), absl::InfiniteDuration(),
      [this, id](const absl::StatusOr<worker::v1::FromWorker>& reply) {
        TakeReply(id, reply.status());
      });
}

// Without a worker the rehearsal goes on when the next one is there, or ends
// when it is known that it ended the worker.
void Rehearsals::TakeReply(uint64_t id, const absl::Status& status) {
  if (absl::IsUnavailable(status)) return;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty() || waiting_.front().version.version_id() != id) return;
  }
  EndFirst(status);
}

void Rehearsals::EndFirst(const absl::Status& status) {
  Done done;
  {
    absl::MutexLock lock(&mutex_);
    done = std::move(waiting_.front().done);
    waiting_.pop_front();
  }
  done(status);
  SendFirst();
}

void Rehearsals::WorkerIsReady() { SendFirst(); }

void Rehearsals::WorkerIsLost(const absl::Status& reason, uint64_t version_id) {
  bool is_guilty = false;
  bool is_given_up = false;
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) return;
    Rehearsal& first = waiting_.front();
    is_guilty = first.version.version_id() == version_id;
    is_given_up =
        !is_guilty && ++first.unexplained_ends >= kMostUnexplainedEnds;
  }
  if (is_guilty) {
    EndFirst(absl::InvalidArgumentError(absl::StrCat(
        "it was loaded and run alone, and that ended the process: ",
        reason.message(),
        absl::StrContains(reason.message(), kAlarm)
            ? ", which means that it took too long"
            : "")));
  } else if (is_given_up) {
    EndFirst(absl::UnavailableError(
        absl::StrCat("it could not be tried alone, the process ended before: ",
                     reason.message())));
  }
}

}  // namespace gpupool::server
