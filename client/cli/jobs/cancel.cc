// gpupool cancel: stop a job.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/array_view.h"
#include "client/cli/output/job_view.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

int Cancel(Context& context, const std::string& text) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> either = FindJobOrArray(**client, text);
  if (!either.ok()) return context.Fail(either.status());
  v1::CancelJobRequest request;
  if (const auto* array = std::get_if<v1::JobArray>(&*either)) {
    request.set_id(array->id());
    const absl::StatusOr<v1::JobArray> now = (*client)->CancelArray(request);
    if (!now.ok()) return context.Fail(now.status());
    context.Print(*now, [&] {
      *context.out().stream << "array " << now->id() << " ("
                            << now->spec().name() << "): " << CountsText(*now)
                            << "\n";
    });
    return kOk;
  }
  const v1::Job* found = &std::get<v1::Job>(*either);
  request.set_id(found->id());
  const absl::StatusOr<v1::Job> job = (*client)->CancelJob(request);
  if (!job.ok()) return context.Fail(job.status());
  context.Print(*job, [&] {
    *context.out().stream << "job " << job->id() << " (" << job->spec().name()
                          << (IsFinal(found->state()) ? ") had already ended: "
                                                      : ") is ")
                          << StateText(job->state()) << "\n";
  });
  return kOk;
}

}  // namespace

void AddCancel(CLI::App& app, Invocation& invocation) {
  auto job = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(
      app, "cancel",
      "Stop a job: a waiting job at once, a running job after its step. Its "
      "checkpoints are kept. Cancelling an ended job changes nothing.",
      "  gpupool cancel 7\n  gpupool cancel 7_3");
  verb->add_option("JOB", *job, kJobOrArrayHelp)->required();
  invocation.On(verb, [job](Context& c) { return Cancel(c, *job); });
}

}  // namespace gpupool::client
