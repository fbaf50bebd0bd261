#include "server/pool/worker_end.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/pool/worker_port.h"

namespace gpupool::server {
namespace {

// See PoolOptions::hang_timeout.
constexpr int kHangMeans = 20;
constexpr int kUnknownHangFactor = 30;
constexpr char kKilled[] = "killed by signal 9";

bool Hung(const WorkerEnd& end) { return absl::IsDeadlineExceeded(end.reason); }

absl::Duration HangLimit(const WorkReading& work, absl::Duration hang_timeout) {
  // Nothing tells how long the steps of a job take, until one has ended. A
  // version has run a batch before it gets its first request.
  const bool is_first_step =
      work.phase == WorkPhase::kStep && work.mean.count() == 0;
  return HasUsualDuration(work.phase) && !is_first_step
             ? std::max(hang_timeout, kHangMeans * absl::FromChrono(work.mean))
             : kUnknownHangFactor * hang_timeout;
}

}  // namespace

int ReapMilliseconds(absl::string_view device) {
  return device == kMetaDevice || device == kRehearsalDevice ? 1000 : 50;
}

bool WasKilledFromOutside(const absl::Status& reason) {
  return absl::StrContains(reason.message(), kKilled) &&
         !absl::StrContains(reason.message(), kByServer);
}

WorkOwner SuspectOf(const WorkerEnd& end) {
  const bool from_outside =
      end.how == kKilled && end.work.phase == WorkPhase::kInfer && !Hung(end);
  return from_outside ? WorkOwner() : end.work.owner;
}

bool WasEndedByRequest(const WorkerEnd& end, std::chrono::nanoseconds sent) {
  const bool crashed =
      absl::StartsWith(end.how, "killed by signal") && end.how != kKilled;
  // Older work was not done for this request.
  return (crashed || Hung(end)) && end.work.busy && end.work.age <= sent;
}

std::optional<std::string> HangText(const WorkReading& work,
                                    absl::Duration hang_timeout) {
  const absl::Duration limit = HangLimit(work, hang_timeout);
  const absl::Duration age = absl::FromChrono(work.age);
  if (age <= limit) return std::nullopt;
  return absl::StrCat(
      "the worker hangs: ", WorkPhaseText(work.phase), " has taken ",
      absl::FormatDuration(absl::Trunc(age, absl::Milliseconds(100))),
      ", the limit is ", absl::FormatDuration(limit),
      " (--hang-timeout); it is killed. If such work may take so long, raise "
      "--hang-timeout or lower the batch size");
}

std::string LateText(absl::string_view worker, absl::Duration timeout) {
  return absl::StrCat(
      worker, " did not answer within ",
      absl::FormatDuration(absl::Ceil(timeout, absl::Milliseconds(100))),
      ": what was asked takes too long, or the machine is busy; try again, or "
      "ask for less, such as a model of fewer nodes");
}

}  // namespace gpupool::server
