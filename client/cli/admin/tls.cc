// gpupool tls: certificates for a server and its clients. Asks no server.
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "tls/authority.h"
#include "tls/authority_folder.h"

namespace gpupool::client {
namespace {

struct TlsVerbOptions {
  std::string folder;
  std::string name;                // of a client
  std::vector<std::string> hosts;  // of a server
  int days = tls::NewCertificate().days;
};

// Returns this machine's name, or "" if no certificate can have it.
std::string OwnHost() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return tls::CheckHost(name.data()).ok() ? name.data() : "";
}

// Returns the hosts that were asked for, otherwise this machine's name, and
// those of the loopback address.
std::vector<std::string> HostsOf(const TlsVerbOptions& options) {
  std::vector<std::string> hosts = options.hosts;
  if (hosts.empty()) hosts.push_back(OwnHost());
  hosts.insert(hosts.end(), {"localhost", "127.0.0.1", "::1"});
  std::vector<std::string> unique;
  for (const std::string& host : hosts) {
    if (host.empty() && options.hosts.empty()) continue;
    if (std::find(unique.begin(), unique.end(), host) == unique.end()) {
      unique.push_back(host);
    }
  }
  return unique;
}

// Prints the names of the files that were made.
void PrintFiles(Context& context, const TlsVerbOptions& options,
                const std::vector<std::string>& names) {
  nlohmann::ordered_json json;
  json["files"] = nlohmann::ordered_json::array();
  const bool as_table = context.options().output == OutputFormat::kTable;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(options.folder, "/", name);
    if (as_table) *context.out().stream << path << "\n";
    json["files"].push_back(path);
  }
  // JSON is YAML, so one form serves both.
  if (!as_table) *context.out().stream << json.dump(2) << "\n";
}

int MakeFolder(Context& context, const TlsVerbOptions& options) {
  const absl::Status made = tls::MakeAuthorityFolder(
      options.folder, HostsOf(options), {absl::Now(), options.days});
  if (!made.ok()) return context.Fail(made);
  PrintFiles(context, options,
             {"ca.pem", "ca.key", "server.pem", "server.key"});
  const std::string& at = options.folder;
  context.Say(absl::StrCat(
      "Keep ca.key where nobody else can read it. Start the server with\n",
      "  gpupoold --listen 0.0.0.0 --tls-certificate ", at,
      "/server.pem --tls-key ", at, "/server.key --tls-client-ca ", at,
      "/ca.pem\nand make a certificate for each client: gpupool tls client ",
      at, " NAME"));
  return kOk;
}

int MakeClient(Context& context, const TlsVerbOptions& options) {
  const absl::Status made = tls::AddClientTo(options.folder, options.name,
                                             {absl::Now(), options.days});
  if (!made.ok()) return context.Fail(made);
  const std::string pem = absl::StrCat(options.name, ".pem");
  const std::string key = absl::StrCat(options.name, ".key");
  PrintFiles(context, options, {pem, key});
  context.Say(
      absl::StrCat("Give both files and ca.pem to the client, which calls\n",
                   "  gpupool --ca ca.pem --client-cert ", pem,
                   " --client-key ", key, " jobs"));
  return kOk;
}

void AddDays(CLI::App* verb, int& days) {
  verb->add_option(
          "--days", days,
          absl::StrCat("Validity, 1 to ", tls::kMostDays,
                       ", never beyond the authority's (default: ", days, ")"))
      ->type_name("DAYS");
}

void AddInit(CLI::App& tls, Invocation& invocation) {
  auto options = std::make_shared<TlsVerbOptions>();
  CLI::App* verb = AddVerb(
      tls, "init",
      "Make an authority and a certificate for a server, in a new folder.",
      "  gpupool tls init pki --host pool.example.org --host 10.0.0.7");
  verb->add_option("DIR", options->folder, "The folder to make")->required();
  verb->add_option("--host", options->hosts,
                   "Name or IP address under which clients reach the server; "
                   "may be repeated (default: this machine's name); the "
                   "loopback addresses and localhost always work")
      ->type_name("NAME");
  AddDays(verb, options->days);
  invocation.On(verb,
                [options](Context& c) { return MakeFolder(c, *options); });
}

void AddClient(CLI::App& tls, Invocation& invocation) {
  auto options = std::make_shared<TlsVerbOptions>();
  CLI::App* verb =
      AddVerb(tls, "client", "Make a certificate for a client of the server.",
              "  gpupool tls client pki mia --days 90");
  verb->add_option("DIR", options->folder, "The folder of `gpupool tls init`")
      ->required();
  verb->add_option("NAME", options->name, "Name of the client")->required();
  AddDays(verb, options->days);
  invocation.On(verb,
                [options](Context& c) { return MakeClient(c, *options); });
}

}  // namespace

void AddTls(CLI::App& app, Invocation& invocation) {
  CLI::App* tls =
      AddVerb(app, "tls", "Make certificates for a server and its clients.",
              "  gpupool tls init pki --host pool.example.org");
  tls->require_subcommand(1);
  AddInit(*tls, invocation);
  AddClient(*tls, invocation);
}

}  // namespace gpupool::client
