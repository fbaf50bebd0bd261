// gpupool queues: the queues, their jobs and devices.
#include <CLI/App.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"

namespace gpupool::client {
namespace {

std::string HeldText(const v1::Queue& queue) {
  if (!queue.has_most_devices()) return absl::StrCat(queue.held_devices());
  return absl::StrCat(queue.held_devices(), " of ", queue.most_devices());
}

void PrintQueues(const Context& context, const v1::SchedulingPolicy& policy) {
  Table table({{"QUEUE"},
               {"ORDER"},
               {"RANK", Table::kRight},
               {"PREEMPTS"},
               {"WAITING", Table::kRight},
               {"RUNNING", Table::kRight},
               {"HOLDS", Table::kRight},
               {"DEVICES"},
               {"TENANTS"}});
  const auto list = [](const auto& names) {
    return names.empty() ? "all" : absl::StrJoin(names, ",");
  };
  for (const v1::Queue& queue : policy.queues()) {
    table.AddRow({queue.name(), queue.order(), absl::StrCat(queue.rank()),
                  queue.preempts() ? "yes" : "no",
                  absl::StrCat(queue.waiting_jobs()),
                  absl::StrCat(queue.running_jobs()), HeldText(queue),
                  list(queue.devices()), list(queue.tenants())});
  }
  table.Print(context.out(), context.headers());
}

int Queues(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto server = (*client)->GetServerInfo({});
  if (!server.ok()) return context.Fail(server.status());
  const v1::SchedulingPolicy& policy = server->scheduling();
  context.Print(policy, [&] { PrintQueues(context, policy); });
  return kOk;
}

}  // namespace

void AddQueues(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = AddVerb(
      app, "queues",
      "Show the server's queues, the first one on top: order, rank, numbers of "
      "waiting and running jobs, and the devices that they hold.",
      "  gpupool queues -o json");
  invocation.On(verb, [](Context& c) { return Queues(c); });
}

}  // namespace gpupool::client
