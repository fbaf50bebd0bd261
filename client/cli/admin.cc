// gpupool admin: running the server.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/table.h"
#include "client/cli/verbs.h"

namespace gpupool::client {
namespace {

int Drain(Context& context, bool stop) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::DrainRequest request;
  request.set_stop(stop);
  const auto answer = (*client)->Drain(request);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    *context.out().stream << "the server takes no more jobs; "
                          << answer->running_jobs() << " running"
                          << (stop ? ", it ends after their checkpoints" : "")
                          << "\n";
  });
  return kOk;
}

int State(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto state = (*client)->GetReconcileState({});
  if (!state.ok()) return context.Fail(state.status());
  context.Print(*state, [&] {
    Table table({{"JOB", Table::kRight},
                 {"ATTEMPT", Table::kRight},
                 {"DEVICE"},
                 {"IN STORE"},
                 {"ON WORKER"}});
    for (const auto& attempt : state->attempts()) {
      table.AddRow({absl::StrCat(attempt.job_id()),
                    absl::StrCat(attempt.attempt()), attempt.device(),
                    attempt.in_store() ? "yes" : "no",
                    attempt.on_worker() ? "yes" : "no"});
    }
    table.Print(context.out(), context.headers());
    context.Say(absl::StrCat(state->mismatches_total(),
                             " mismatches since the server's start"));
  });
  return kOk;
}

}  // namespace

void AddAdmin(CLI::App& app, Invocation& invocation) {
  CLI::App* admin = AddVerb(app, "admin", "Drain and inspect the server.",
                            "  gpupool admin drain --stop");
  admin->require_subcommand(1);
  auto stop = std::make_shared<bool>(false);
  CLI::App* drain = AddVerb(
      *admin, "drain",
      "Take no more jobs. With --stop the server ends as by SIGTERM: running "
      "steps finish, jobs checkpoint and go on after the next start.",
      "  gpupool admin drain --stop");
  drain->add_flag("--stop", *stop, "End the server, too");
  invocation.On(drain, [stop](Context& c) { return Drain(c, *stop); });
  invocation.On(
      AddVerb(*admin, "state",
              "Show what the server believes to run against what its workers "
              "say.",
              "  gpupool admin state -o json"),
      State);
}

}  // namespace gpupool::client
