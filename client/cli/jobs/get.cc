// gpupool get: everything about one job.
#include <CLI/App.hpp>
#include <memory>

#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/array_view.h"
#include "client/cli/output/job_view.h"

namespace gpupool::client {
namespace {

int Get(Context& context, const std::string& text) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> found = FindJobOrArray(**client, text);
  if (!found.ok()) return context.Fail(found.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*found)) {
    context.Print(*array,
                  [&] { PrintArray(context.out(), *array, absl::Now()); });
    return kOk;
  }
  const v1::Job& job = std::get<v1::Job>(*found);
  context.Print(job, [&] { PrintJob(context.out(), job, absl::Now()); });
  return kOk;
}

}  // namespace

void AddGet(CLI::App& app, Invocation& invocation) {
  auto job = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(
      app, "get",
      "Show one job: state, progress, results, memory, and why it waits or "
      "failed.",
      "  gpupool get 7\n  gpupool get digits -o yaml");
  verb->add_option("JOB", *job, kJobOrArrayHelp)->required();
  invocation.On(verb, [job](Context& c) { return Get(c, *job); });
}

}  // namespace gpupool::client
