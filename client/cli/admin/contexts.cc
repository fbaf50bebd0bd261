// gpupool context: names for servers and for the files to call them.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/contexts/context_file.h"
#include "client/cli/output/table.h"
#include "client/local_socket.h"
#include "client/text/quote.h"
#include "client/token.h"

namespace gpupool::client {
namespace {

using ContextJson = nlohmann::ordered_json;

struct AddContextOptions {
  std::string name;
  bool replace = false;
};

struct UseContextOptions {
  std::string name;
  bool none = false;
};

// Returns `path` so that it means the same in each folder; "" stays.
absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot tell where ", path, " is"));
  }
  return absolute.lexically_normal().string();
}

absl::StatusOr<std::string> AddressToKeep(const ServerFlags& flags) {
  if (!flags.address.has_value()) {
    return absl::InvalidArgumentError(
        "a context needs --address, as host:port or unix:PATH; the environment "
        "is not kept");
  }
  const absl::StatusOr<std::string> address = CompleteAddress(*flags.address);
  if (!address.ok() || !IsSocketAddress(*address)) return address;
  const size_t path_begin = address->find(':') + 1;
  const auto path = AbsolutePath(address->substr(path_begin));
  if (!path.ok()) return path.status();
  const std::string whole = absl::StrCat(address->substr(0, path_begin), *path);
  const absl::Status usable = CheckSocketAddress(whole);
  if (!usable.ok()) return usable;
  return whole;
}

// Returns the context that the flags describe. InvalidArgument if it could not
// work.
absl::StatusOr<ServerContext> ContextOfFlags(const ServerFlags& flags) {
  const absl::StatusOr<std::string> address = AddressToKeep(flags);
  if (!address.ok()) return address.status();
  ServerContext context{.address = *address, .insecure = flags.insecure};
  const std::pair<const std::optional<std::string>&, std::string&> files[] = {
      {flags.ca, context.tls.ca},
      {flags.certificate, context.tls.certificate},
      {flags.key, context.tls.key},
      {flags.token_file, context.token_file}};
  for (const auto& [flag, kept] : files) {
    const auto path = AbsolutePath(flag.value_or(""));
    if (!path.ok()) return path.status();
    kept = *path;
  }
  const absl::Status valid = CheckContext(context);
  if (!valid.ok()) return valid;
  if (context.token_file.empty()) return context;
  ClientOptions options{.address = context.address, .tls = context.tls};
  options.token.insecure = context.insecure;
  const absl::Status safe = CheckTokenIsSafe(options);
  if (!safe.ok()) return safe;
  return context;
}

// Says which files of the context cannot be read.
void WarnOfFiles(const Context& context, const ServerContext& server) {
  for (const std::string& path : {server.tls.ca, server.tls.certificate,
                                  server.tls.key, server.token_file}) {
    if (path.empty() || ::access(path.c_str(), R_OK) == 0) continue;
    context.Say(absl::StrCat("warning: cannot read ", Printable(path), ": ",
                             std::strerror(errno)));
  }
}

// Says which variable counts more than the context in use.
void WarnOfVariables(const Context& context) {
  for (const char* variable : {"GPUPOOL_ADDRESS", "GPUPOOL_CONTEXT"}) {
    if (!IsSet(variable)) continue;
    context.Say(absl::StrCat("warning: ", variable,
                             " is set and comes before the context in use; "
                             "unset it, or give --context"));
    return;
  }
}

absl::Status RefuseContextFlag(const Context& context) {
  if (!context.options().server.context.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--context says which server to call, and this verb calls none; name the "
      "context after the verb");
}

// Changes the file of contexts. Refuses --context.
absl::Status ChangeContexts(
    const Context& context,
    const std::function<absl::Status(ContextList&, const std::string& path)>&
        change) {
  const absl::Status refused = RefuseContextFlag(context);
  if (!refused.ok()) return refused;
  const absl::StatusOr<std::string> path = ContextFilePath();
  if (!path.ok()) return path.status();
  return UpdateContextFile(
      *path, [&](ContextList& list) { return change(list, *path); });
}

int AddContext(Context& context, const AddContextOptions& options) {
  const absl::Status named = CheckContextName(options.name);
  if (!named.ok()) return context.Fail(named);
  const auto server = ContextOfFlags(context.options().server);
  if (!server.ok()) return context.Fail(server.status());
  const absl::Status added =
      ChangeContexts(context, [&](ContextList& list, const std::string& path) {
        const auto known = list.contexts.find(options.name);
        if (known == list.contexts.end() &&
            list.contexts.size() >= kMostContexts) {
          return absl::ResourceExhaustedError(
              absl::StrCat(path, " has ", kMostContexts,
                           " contexts, the most that it may have; remove one "
                           "with `gpupool context remove NAME`"));
        }
        if (known != list.contexts.end() && !(known->second == *server) &&
            !options.replace) {
          return absl::AlreadyExistsError(
              absl::StrCat("context ", Quoted(options.name), " is that of ",
                           Printable(known->second.address),
                           ", or has other files; give --replace to replace "
                           "it, or choose another name"));
        }
        list.contexts[options.name] = *server;
        return absl::OkStatus();
      });
  if (!added.ok()) return context.Fail(added);
  context.Say(absl::StrCat("context ", Quoted(options.name), " is ",
                           Printable(server->address),
                           "; use it with `gpupool context use ", options.name,
                           "` or --context ", options.name));
  WarnOfFiles(context, *server);
  return kOk;
}

int UseContext(Context& context, const UseContextOptions& options) {
  if (options.none == !options.name.empty()) {
    return context.Fail(absl::InvalidArgumentError(
        "name a context, or give --none to use none"));
  }
  ServerContext server;
  const absl::Status used =
      ChangeContexts(context, [&](ContextList& list, const std::string& path) {
        if (!options.none) {
          const auto found = FindContext(list, options.name, path);
          if (!found.ok()) return found.status();
          server = *found;
        }
        list.in_use = options.name;
        return absl::OkStatus();
      });
  if (!used.ok()) return context.Fail(used);
  if (options.none) {
    context.Say("no context is in use");
    return kOk;
  }
  context.Say(absl::StrCat("context ", Quoted(options.name),
                           " is in use: ", Printable(server.address)));
  WarnOfVariables(context);
  WarnOfFiles(context, server);
  return kOk;
}

int RemoveContext(Context& context, const std::string& name) {
  bool was_in_use = false;
  const absl::Status removed =
      ChangeContexts(context, [&](ContextList& list, const std::string& path) {
        const auto found = FindContext(list, name, path);
        if (!found.ok()) return found.status();
        list.contexts.erase(name);
        was_in_use = list.in_use == name;
        if (was_in_use) list.in_use.clear();
        return absl::OkStatus();
      });
  if (!removed.ok()) return context.Fail(removed);
  context.Say(absl::StrCat("context ", Quoted(name), " is removed; its files ",
                           "stay", was_in_use ? "; no context is in use" : ""));
  return kOk;
}

ContextJson JsonOf(const std::string& name, const ServerContext& server,
                   const ContextList& list) {
  return {{"name", name},
          {"in_use", name == list.in_use},
          {"address", server.address},
          {"ca", server.tls.ca},
          {"client_cert", server.tls.certificate},
          {"client_key", server.tls.key},
          {"token_file", server.token_file},
          {"insecure", server.insecure}};
}

// Prints JSON, which is YAML as well. Bytes that are not UTF-8 are replaced.
void PrintContextJson(const Context& context, const ContextJson& json) {
  *context.out().stream << json.dump(2, ' ', false,
                                     ContextJson::error_handler_t::replace)
                        << "\n";
}

int ListContexts(Context& context) {
  const absl::StatusOr<std::string> path = ContextFilePath();
  if (!path.ok()) return context.Fail(path.status());
  const absl::StatusOr<ContextList> list = ReadContextFile(*path);
  if (!list.ok()) return context.Fail(list.status());
  if (context.options().output != OutputFormat::kTable) {
    ContextJson json = {{"in_use", list->in_use},
                        {"contexts", ContextJson::array()}};
    for (const auto& [name, server] : list->contexts) {
      json["contexts"].push_back(JsonOf(name, server, *list));
    }
    PrintContextJson(context, json);
    return kOk;
  }
  Table table({{"NAME"}, {"IN USE"}, {"ADDRESS"}, {"CA"}, {"TOKEN FILE"}});
  for (const auto& [name, server] : list->contexts) {
    table.AddRow({name, name == list->in_use ? "yes" : "",
                  Printable(server.address), Printable(server.tls.ca),
                  Printable(server.token_file)});
  }
  table.Print(context.out(), context.headers());
  return kOk;
}

// Shows a context; without a name the one that the next command would use.
int ShowContext(Context& context, const std::string& name) {
  const absl::StatusOr<std::string> path = ContextFilePath();
  if (!path.ok()) return context.Fail(path.status());
  const absl::StatusOr<ContextList> list = ReadContextFile(*path);
  if (!list.ok()) return context.Fail(list.status());
  const std::string shown =
      name.empty() ? ContextToUse(context.options().server, *list) : name;
  if (shown.empty()) {
    return context.Fail(absl::NotFoundError(
        absl::StrCat("no context is in use in ", *path,
                     "; name one, as `gpupool context list` shows them")));
  }
  const auto server = FindContext(*list, shown, *path);
  if (!server.ok()) return context.Fail(server.status());
  const ContextJson json = JsonOf(shown, *server, *list);
  if (context.options().output != OutputFormat::kTable) {
    PrintContextJson(context, json);
    return kOk;
  }
  Table table({{"FIELD"}, {"VALUE"}});
  for (const auto& [key, value] : json.items()) {
    table.AddRow({key, value.is_boolean()
                           ? std::string(value.get<bool>() ? "yes" : "no")
                           : Printable(value.get<std::string>())});
  }
  table.Print(context.out(), context.headers());
  WarnOfFiles(context, *server);
  return kOk;
}

void AddAddContext(CLI::App& contexts, Invocation& invocation) {
  auto options = std::make_shared<AddContextOptions>();
  CLI::App* verb = AddVerb(
      contexts, "add",
      "Name a server and the files to call it: --address, and as needed --ca, "
      "--client-cert, --client-key, --token-file and --insecure. Paths become "
      "absolute. The files stay where they are.",
      "  gpupool context add lab --address pool.example.org:8001 \\\n"
      "      --ca ca.pem --token-file mia.token");
  verb->add_option("NAME", options->name, "Name of the context")->required();
  verb->add_flag("--replace", options->replace,
                 "Replace the context of this name");
  // Hidden: it says why there is none.
  verb->add_option_function<std::string>(
          "--token",
          [](const std::string&) {
            throw CLI::ValidationError(
                "--token",
                "a context keeps no token, since whoever reads the file of "
                "contexts, a backup of it or the shell's history would have "
                "it; write the token to a file that only you can read, and "
                "name that with --token-file");
          })
      ->group("");
  invocation.On(verb,
                [options](Context& c) { return AddContext(c, *options); });
}

void AddUseContext(CLI::App& contexts, Invocation& invocation) {
  auto options = std::make_shared<UseContextOptions>();
  CLI::App* verb =
      AddVerb(contexts, "use",
              "Let commands call the server of a context, unless they or the "
              "environment name another one.",
              "  gpupool context use lab\n"
              "  gpupool context use --none");
  verb->add_option("NAME", options->name, "Name of the context");
  verb->add_flag("--none", options->none, "Use no context");
  invocation.On(verb,
                [options](Context& c) { return UseContext(c, *options); });
}

}  // namespace

void AddContexts(CLI::App& app, Invocation& invocation) {
  CLI::App* contexts =
      AddVerb(app, "context",
              "Name servers, and choose the one that commands call. No server "
              "is asked.",
              "  gpupool context add lab --address pool.example.org:8001\n"
              "  gpupool context use lab");
  contexts->require_subcommand(1);
  AddAddContext(*contexts, invocation);
  AddUseContext(*contexts, invocation);
  invocation.On(AddVerb(*contexts, "list", "Show the contexts.",
                        "  gpupool context list -o json"),
                ListContexts);
  auto shown = std::make_shared<std::string>();
  CLI::App* show =
      AddVerb(*contexts, "show", "Show a context with all its files.",
              "  gpupool context show lab");
  show->add_option("NAME", *shown,
                   "Name of the context (default: the one that --context or "
                   "GPUPOOL_CONTEXT names, else the one in use)");
  invocation.On(show, [shown](Context& c) { return ShowContext(c, *shown); });
  auto removed = std::make_shared<std::string>();
  CLI::App* remove = AddVerb(*contexts, "remove",
                             "Forget a context. The files that it names stay.",
                             "  gpupool context remove lab");
  remove->add_option("NAME", *removed, "Name of the context")->required();
  invocation.On(remove,
                [removed](Context& c) { return RemoveContext(c, *removed); });
}

}  // namespace gpupool::client
