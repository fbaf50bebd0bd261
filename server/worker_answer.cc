#include "server/worker_answer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "server/ipc/unique_fd.h"
#include "server/pool/process.h"

namespace gpupool::server {
namespace {

constexpr size_t kMaxOutput = 1 << 20;
// Interval at which `give_up` is polled.
constexpr absl::Duration kTurn = absl::Milliseconds(100);

// Returns the bytes of a file from its beginning.
std::string ReadAll(int fd) {
  std::string text(kMaxOutput, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return text;
}

// Returns nothing when the time is over or `give_up` is true.
std::optional<std::string> AwaitEnd(Process& process, absl::Time deadline,
                                    const std::function<bool()>& give_up) {
  while (give_up == nullptr || !give_up()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    const absl::Duration turn =
        give_up == nullptr ? left : std::min(left, kTurn);
    auto end =
        process.HowItEnded(static_cast<int>(absl::ToInt64Milliseconds(turn)));
    if (end.has_value()) return end;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<WorkerAnswer> AskWorker(
    const std::vector<std::string>& arguments, absl::Duration timeout,
    const std::function<bool()>& give_up) {
  const UniqueFd output(::memfd_create("answer", MFD_CLOEXEC));
  if (!output.valid()) {
    return absl::UnavailableError("cannot create a file for a worker's answer");
  }
  ASSIGN_OR_RETURN(Process process,
                   Process::SpawnTied(arguments, output.get()));
  auto end = AwaitEnd(process, absl::Now() + timeout, give_up);
  if (end.has_value())
    return WorkerAnswer{*std::move(end), ReadAll(output.get())};
  process.KillSession();
  process.HowItEnded(1000);
  if (give_up != nullptr && give_up()) {
    return absl::CancelledError("the server stops");
  }
  return absl::DeadlineExceededError(
      absl::StrCat(arguments[0], " ", arguments.size() > 1 ? arguments[1] : "",
                   " did not answer within ", absl::FormatDuration(timeout),
                   "; check whether nvidia-smi does"));
}

}  // namespace gpupool::server
