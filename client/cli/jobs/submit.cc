// gpupool submit: submits a job and returns.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/submit_job.h"
#include "client/cli/output/array_view.h"

namespace gpupool::client {
namespace {

int Submit(Context& context, const SubmitOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> taken =
      SubmitFile(context, **client, options);
  if (!taken.ok()) return context.Fail(taken.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*taken)) {
    context.Print(*array, [&] {
      *context.out().stream << array->id() << "\n";
      context.Say(absl::StrCat(
          "array ", array->id(), " (", array->spec().name(), ") is taken: ",
          TasksText(*array), "; request id ", array->request_id(),
          "\nfollow it with: gpupool watch ", array->id()));
    });
    return 0;
  }
  const v1::Job* job = &std::get<v1::Job>(*taken);
  context.Print(*job, [&] {
    *context.out().stream << job->id() << "\n";
    context.Say(absl::StrCat("job ", job->id(), " (", job->spec().name(),
                             ") is taken; request id ", job->request_id(),
                             "\nfollow it with: gpupool watch ", job->id()));
  });
  return 0;
}

}  // namespace

void AddSubmit(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* verb = AddVerb(
      app, "submit",
      "Submit a job, or an array of jobs, and return. Prints its id.",
      "  gpupool submit examples/digits.yaml\n"
      "  id=$(gpupool submit job.yaml --request-id nightly-2026-01-31)");
  AddSubmitOptions(*verb, *options);
  invocation.On(verb, [options](Context& c) { return Submit(c, *options); });
}

}  // namespace gpupool::client
