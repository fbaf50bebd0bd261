// gpupool wait: block until a job ends, without output.
#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/follow_array.h"
#include "client/cli/output/array_view.h"
#include "client/cli/output/job_view.h"
#include "client/text/units.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

struct WaitOptions {
  std::string job;
  std::string timeout;
};

// Waits until `follow` ends. DeadlineExceeded after `limit`.
absl::Status AwaitEnd(
    Context& context, absl::Time limit,
    const std::function<absl::Status(std::stop_token)>& follow) {
  std::stop_source timer;
  std::stop_callback interrupted(context.stop(),
                                 [&timer] { timer.request_stop(); });
  std::jthread clock([&timer, limit](std::stop_token ended) {
    while (!ended.stop_requested() && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    timer.request_stop();
  });
  const absl::Status status = follow(timer.get_token());
  if (absl::IsCancelled(status) && !context.stop().stop_requested()) {
    return absl::DeadlineExceededError("timed out");
  }
  return status;
}

int WaitForArray(Context& context, Client& client, v1::JobArray array,
                 absl::Duration timeout) {
  const absl::Status status =
      AwaitEnd(context, absl::Now() + timeout, [&](std::stop_token stop) {
        const auto ended = FollowArray(client, array, stop,
                                       [&](const auto& now) { array = now; });
        return ended.status();
      });
  if (absl::IsCancelled(status)) return kInterrupted;
  if (absl::IsDeadlineExceeded(status)) {
    return context.Fail(absl::DeadlineExceededError(
        absl::StrCat("array ", array.id(), " has not ended after ",
                     FormatSpan(timeout), ": ", CountsText(array))));
  }
  if (!status.ok()) return context.Fail(status);
  context.Print(array, [] {});
  return ExitCodeFor(StateOf(array));
}

int Wait(Context& context, const WaitOptions& options) {
  absl::Duration timeout = absl::InfiniteDuration();
  if (!options.timeout.empty()) {
    const absl::StatusOr<absl::Duration> span = ParseSpan(options.timeout);
    if (!span.ok()) return context.Fail(span.status());
    timeout = *span;
  }
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> found =
      FindJobOrArray(**client, options.job);
  if (!found.ok()) return context.Fail(found.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*found)) {
    return WaitForArray(context, **client, *array, timeout);
  }
  absl::StatusOr<v1::Job> job = std::get<v1::Job>(*found);
  const absl::Status status =
      AwaitEnd(context, absl::Now() + timeout, [&](std::stop_token stop) {
        return WatchJob(**client, job->id(), {.stop = std::move(stop)},
                        [](const v1::JobEvent&) { return true; });
      });
  if (absl::IsCancelled(status)) return kInterrupted;
  v1::GetJobRequest request;
  request.set_id(job->id());
  if (status.ok() || absl::IsDeadlineExceeded(status)) {
    job = (*client)->GetJob(request);
    if (!job.ok()) return context.Fail(job.status());
  }
  if (absl::IsDeadlineExceeded(status)) {
    return context.Fail(absl::DeadlineExceededError(
        absl::StrCat("job ", job->id(), " is still ", StateText(job->state()),
                     " after ", FormatSpan(timeout))));
  }
  if (!status.ok()) return context.Fail(status);
  context.Print(*job, [] {});
  return ExitCodeFor(job->state());
}

}  // namespace

void AddWait(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<WaitOptions>();
  CLI::App* verb = AddVerb(
      app, "wait",
      "Block until a job ends. Exits with 0 when it succeeded, 1 when it "
      "failed or was cancelled, 124 when the time limit came first.",
      "  gpupool wait 7 --timeout 10m && gpupool models list");
  verb->add_option("JOB", options->job, kJobOrArrayHelp)->required();
  verb->add_option("--timeout", options->timeout,
                   "How long to wait (default: without limit)")
      ->type_name("DURATION");
  invocation.On(verb, [options](Context& c) { return Wait(c, *options); });
}

}  // namespace gpupool::client
