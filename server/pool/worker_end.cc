#include "server/pool/worker_end.h"

#include "absl/strings/match.h"

namespace gpupool::server {
namespace {

constexpr char kKilled[] = "killed by signal 9";

bool Hung(const WorkerEnd& end) { return absl::IsDeadlineExceeded(end.reason); }

}  // namespace

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

}  // namespace gpupool::server
