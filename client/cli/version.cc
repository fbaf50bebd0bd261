// gpupool version: of this program and of the server.
#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"

namespace gpupool {
extern const char kCommit[];  // cmake/commit.cmake; empty: not known
}

namespace gpupool::client {
namespace {

std::string WithCommit(const std::string& version, const std::string& commit) {
  return commit.empty() ? version : version + " (" + commit + ")";
}

int Version(Context& context, bool client_only) {
  std::ostream& out = *context.out().stream;
  const bool as_table = context.options().output == OutputFormat::kTable;
  nlohmann::ordered_json json;
  json["client"]["version"] = GPUPOOL_VERSION;
  json["client"]["commit"] = std::string(kCommit);
  if (as_table) {
    out << "client: " << WithCommit(GPUPOOL_VERSION, kCommit) << std::endl;
  }
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
        out << "server: " << WithCommit(server->version(), server->commit())
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
  CLI::App* verb = AddVerb(
      app, "version", "Print the versions of this program and of the server.",
      "  gpupool version --client");
  verb->add_flag("--client", *client_only, "Do not ask the server");
  invocation.On(verb,
                [client_only](Context& c) { return Version(c, *client_only); });
}

}  // namespace gpupool::client
