// gpupool tokens: who may call a server, and as what.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr char kNever[] = "never";

struct NewTokenOptions {
  std::string tenant, role, name, expires = "30d";
};

std::string MomentText(bool there, const google::protobuf::Timestamp& time) {
  if (!there) return "-";
  return absl::FormatTime(absl::RFC3339_sec,
                          absl::FromUnixSeconds(time.seconds()),
                          absl::LocalTimeZone());
}

std::string RoleText(v1::Role role) {
  return absl::AsciiStrToLower(v1::Role_Name(role));
}

absl::StatusOr<v1::CreateTokenRequest> NewTokenRequest(
    const NewTokenOptions& options) {
  v1::CreateTokenRequest request;
  request.set_name(options.name);
  request.set_tenant(options.tenant);
  v1::Role role = v1::ROLE_UNSPECIFIED;
  v1::Role_Parse(absl::AsciiStrToUpper(options.role), &role);
  request.set_role(role);
  if (options.expires == kNever) return request;
  const auto span = ParseSpan(options.expires);
  if (!span.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--expires: ", span.status().message()));
  }
  request.mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(absl::Now() + *span));
  return request;
}

// Prints the secret alone on standard output, so that it can go to a file.
int CreateToken(Context& context, const NewTokenOptions& options) {
  const auto request = NewTokenRequest(options);
  if (!request.ok()) return context.Fail(request.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto made = (*client)->CreateToken(*request);
  if (!made.ok()) return context.Fail(made.status());
  context.Print(*made,
                [&] { *context.out().stream << made->secret() << "\n"; });
  const v1::Token& token = made->token();
  context.Say(absl::StrCat(
      "token ", token.id(), ", role ", RoleText(token.role()),
      token.tenant().empty() ? "" : absl::StrCat(" of ", token.tenant()),
      ", expires ",
      token.has_expire_time() ? MomentText(true, token.expire_time()) : kNever,
      ". It is shown this once. Keep it in a file that only its owner can "
      "read, "
      "and name the file in GPUPOOL_TOKEN_FILE."));
  return kOk;
}

int ListTokens(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto list = (*client)->ListTokens({});
  if (!list.ok()) return context.Fail(list.status());
  context.Print(*list, [&] {
    Table table({{"ID", Table::kRight},
                 {"NAME"},
                 {"TENANT"},
                 {"ROLE"},
                 {"CREATED"},
                 {"EXPIRES"},
                 {"REVOKED"},
                 {"LAST USE"}});
    for (const v1::Token& one : list->tokens()) {
      table.AddRow({absl::StrCat(one.id()), one.name(), one.tenant(),
                    RoleText(one.role()),
                    MomentText(one.has_create_time(), one.create_time()),
                    one.has_expire_time() ? MomentText(true, one.expire_time())
                                          : std::string(kNever),
                    MomentText(one.has_revoke_time(), one.revoke_time()),
                    MomentText(one.has_last_use_time(), one.last_use_time())});
    }
    table.Print(context.out(), context.headers());
  });
  return kOk;
}

int RevokeToken(Context& context, uint64_t id) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::RevokeTokenRequest request;
  request.set_id(id);
  const auto revoked = (*client)->RevokeToken(request);
  if (!revoked.ok()) return context.Fail(revoked.status());
  context.Print(*revoked, [&] {
    *context.out().stream << "token " << id << " is revoked\n";
  });
  return kOk;
}

void AddCreateToken(CLI::App& tokens, Invocation& invocation) {
  auto options = std::make_shared<NewTokenOptions>();
  CLI::App* verb = AddVerb(
      tokens, "create",
      "Make a token and print it. It is shown this once: the server keeps only "
      "its digest.",
      "  umask 077\n"
      "  gpupool tokens create --tenant research.vision --role user \\\n"
      "      --expires 30d > mia.token");
  verb->add_option("--role", options->role,
                   "What the token may do; each role may do what those before "
                   "it may: viewer reads; user also runs jobs and uses models; "
                   "operator also drains and reserves, for all tenants; admin "
                   "also makes tokens")
      ->check(CLI::IsMember({"viewer", "user", "operator", "admin"}))
      ->type_name("ROLE")
      ->required();
  verb->add_option("--tenant", options->tenant,
                   "The tenant whose jobs a viewer or user sees");
  verb->add_option("--expires", options->expires,
                   "Time until it ends: 12h, 30d, or never (default: 30d)")
      ->type_name("DURATION");
  verb->add_option("--name", options->name, "Name for people, as mia-laptop");
  invocation.On(verb,
                [options](Context& c) { return CreateToken(c, *options); });
}

}  // namespace

void AddTokens(CLI::App& app, Invocation& invocation) {
  CLI::App* tokens = AddVerb(
      app, "tokens",
      "Make, list and revoke tokens of a server that runs with --auth tokens. "
      "Needs the role admin.",
      "  gpupool tokens list");
  tokens->require_subcommand(1);
  AddCreateToken(*tokens, invocation);
  invocation.On(
      AddVerb(*tokens, "list",
              "Show the tokens, without their secrets. The last use is exact "
              "to the minute.",
              "  gpupool tokens list -o json"),
      ListTokens);
  auto id = std::make_shared<uint64_t>(0);
  CLI::App* revoke =
      AddVerb(*tokens, "revoke",
              "End a token at once. Streams that are open go on to their end.",
              "  gpupool tokens revoke 3");
  revoke->add_option("ID", *id, "The id of the token")->required();
  invocation.On(revoke, [id](Context& c) { return RevokeToken(c, *id); });
}

}  // namespace gpupool::client
