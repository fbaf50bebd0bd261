// gpupool version: of this program and of the server.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/verbs.h"

namespace gpupool::client {
namespace {

int Version(Context& context, bool client_only) {
  std::ostream& out = *context.out().stream;
  const bool as_table = context.options().output == OutputFormat::kTable;
  nlohmann::ordered_json json;
  json["client"]["version"] = GPUPOOL_VERSION;
  if (as_table) out << "client: " GPUPOOL_VERSION << std::endl;
  absl::Status failure;
  if (!client_only) {
    const absl::StatusOr<Client*> client = context.client();
    if (!client.ok()) return context.Fail(client.status());
    const auto server = (*client)->GetServerInfo({});
    failure = server.status();
    if (server.ok()) {
      json["server"] =
          nlohmann::ordered_json::parse(MessageToJson(*server, false));
      if (as_table) {
        out << "server: " << server->version()
            << (server->commit().empty() ? "" : " (" + server->commit() + ")")
            << (server->draining() ? ", draining" : "") << "\n";
        if (server->has_scheduling()) {
          out << "order: " << server->scheduling().order() << "\n";
        }
      }
    }
  }
  // JSON is YAML, so one form serves both.
  if (!as_table) out << json.dump(2) << "\n";
  return failure.ok() ? kOk : context.Fail(failure);
}

}  // namespace

void AddVersion(CLI::App& app, Invocation& invocation) {
  auto client_only = std::make_shared<bool>(false);
  CLI::App* verb =
      AddVerb(app, "version", "Print the versions of this program and server.",
              "  gpupool version --client");
  verb->add_flag("--client", *client_only, "Do not ask the server");
  invocation.On(verb,
                [client_only](Context& c) { return Version(c, *client_only); });
}

}  // namespace gpupool::client
