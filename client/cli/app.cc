#include "client/cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/help_formatter.h"
#include "client/server_defaults.h"
#include "client/text/suggest.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr const char* kDescription =
    "Train and serve models on the pool of a gpupool server.";

constexpr const char* kFooter =
    R"(First steps:
  gpupoold &                                         # start a server here
  gpupool run examples/digits.yaml --data examples/data/digits.csv.gz
  gpupool models list                                # what was trained
  gpupool models infer digits --data examples/data/digits.csv.gz

`gpupool VERB --help` explains a verb with an example.
Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 denied, 5 unreachable,
6 conflict, 7 exhausted, 124 timed out, 130 interrupted.)";

// Adds an option whose value is kept also when it is empty, unlike CLI11's own
// option for std::optional.
CLI::Option* AddServerOption(CLI::App& app, const std::string& name,
                             std::optional<std::string>& value,
                             const std::string& text) {
  return app.add_option_function<std::string>(
      name, [&value](const std::string& given) { value = given; }, text);
}

void AddTlsOptions(CLI::App& app, ServerFlags& server) {
  AddServerOption(app, "--ca", server.ca,
                  "Certificate of the authority that signed the server's, "
                  "which turns on TLS (default: GPUPOOL_CA)")
      ->type_name("FILE");
  AddServerOption(app, "--client-cert", server.certificate,
                  "Certificate of this client, for a server that wants one "
                  "(default: GPUPOOL_CLIENT_CERT)")
      ->type_name("FILE");
  AddServerOption(app, "--client-key", server.key,
                  "Key of this client's certificate (default: "
                  "GPUPOOL_CLIENT_KEY)")
      ->type_name("FILE");
}

void AddTokenOptions(CLI::App& app, ServerFlags& server) {
  AddServerOption(app, "--token-file", server.token_file,
                  "File with the token by which the server knows you (default: "
                  "GPUPOOL_TOKEN_FILE; GPUPOOL_TOKEN has the token itself)")
      ->type_name("FILE");
  app.add_flag("--insecure", server.insecure,
               "Send the token to another machine without TLS, where others "
               "can read it");
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  static const std::map<std::string, OutputFormat> kFormats = {
      {"table", OutputFormat::kTable},
      {"json", OutputFormat::kJson},
      {"yaml", OutputFormat::kYaml}};
  AddServerOption(
      app, "--address", options.server.address,
      absl::StrCat("The server, as host:port or unix:PATH "
                   "(default: GPUPOOL_ADDRESS, the context in use, the socket ",
                   DefaultSocket(), " if a server listens there, or ",
                   DefaultServerAddress(), ")"));
  AddServerOption(app, "--context", options.server.context,
                  "The server of `gpupool context add NAME`, with its files, "
                  "whatever the environment says (default: GPUPOOL_CONTEXT, or "
                  "the context in use)")
      ->type_name("NAME");
  AddTlsOptions(app, options.server);
  AddTokenOptions(app, options.server);
  app.add_option_function<std::string>(
         "-o,--output",
         [&options](const std::string& name) {
           options.output = kFormats.at(name);
         },
         "Output format (default: table)")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->type_name("FORMAT");
  app.add_option_function<std::string>(
         "--timeout",
         [&options](const std::string& text) {
           const absl::StatusOr<absl::Duration> span = ParseSpan(text);
           if (!span.ok()) {
             throw CLI::ValidationError("--timeout",
                                        std::string(span.status().message()));
           }
           options.timeout = *span;
           options.timeout_given = true;
         },
         "Time limit of one call (default: 30s)")
      ->type_name("DURATION");
  app.add_flag("--no-headers", options.no_headers,
               "Leave out the header line of tables");
}

void AddVerbs(CLI::App& app, Invocation& invocation) {
  AddSubmit(app, invocation);
  AddRun(app, invocation);
  AddPlan(app, invocation);
  AddJobs(app, invocation);
  AddGet(app, invocation);
  AddWatch(app, invocation);
  AddLogs(app, invocation);
  AddWait(app, invocation);
  AddWhy(app, invocation);
  AddProfile(app, invocation);
  AddCompare(app, invocation);
  AddCancel(app, invocation);
  AddHold(app, invocation);
  AddRelease(app, invocation);
  AddRequeue(app, invocation);
  AddDatasets(app, invocation);
  AddModels(app, invocation);
  AddQueues(app, invocation);
  AddReserve(app, invocation);
  AddDevices(app, invocation);
  AddAdmin(app, invocation);
  AddTls(app, invocation);
  AddTokens(app, invocation);
  AddContexts(app, invocation);
  AddUsage(app, invocation);
  AddQuota(app, invocation);
  AddDoctor(app, invocation);
  AddSim(app, invocation);
  AddVersion(app, invocation);
  AddCompletion(app, invocation);
}

// Returns the innermost verb that the arguments name, whose usage is printed.
const CLI::App* Innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

// Returns "gpupool models" for its verb `load`, and "" for the program.
std::string ParentPath(const CLI::App* verb) {
  std::string path;
  for (const CLI::App* at = verb->get_parent(); at != nullptr;
       at = at->get_parent()) {
    path = at->get_name() + (path.empty() ? "" : " ") + path;
  }
  return path;
}

std::string Help(const CLI::App& app) {
  const CLI::App* verb = Innermost(&app);
  return verb->help(ParentPath(verb));
}

// Returns the words of the command line that are neither options nor values of
// options of the program or of `verb`.
std::vector<std::string> Words(const CLI::App& app, const CLI::App& verb,
                               const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].empty() || arguments[i][0] != '-') {
      words.push_back(arguments[i]);
      continue;
    }
    const CLI::Option* option = app.get_option_no_throw(arguments[i]);
    if (option == nullptr) option = verb.get_option_no_throw(arguments[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return words;
}

// Returns "unknown verb 'jbs'; did you mean 'jobs'?" for an unknown verb, else
// the parser's own text.
std::string ErrorText(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& arguments) {
  const CLI::App* verb = Innermost(&app);
  std::vector<std::string> names;
  for (const CLI::App* below : verb->get_subcommands({})) {
    names.push_back(below->get_name());
  }
  size_t depth = 0;
  for (const CLI::App* at = verb; at->get_parent() != nullptr;
       at = at->get_parent()) {
    ++depth;
  }
  const std::vector<std::string> words = Words(app, *verb, arguments);
  if (names.empty() || words.size() <= depth) return error.what();
  const std::string& word = words[depth];
  return absl::StrCat("unknown verb '", word, "'", DidYouMean(word, names),
                      " (known: ", absl::StrJoin(names, ", "), ")");
}

int ReportParseError(const CLI::App& app, const CLI::ParseError& error,
                     const std::vector<std::string>& arguments,
                     const Console& console) {
  if (error.get_exit_code() == 0) {  // --help
    *console.out.stream << Help(app);
    return kOk;
  }
  const CLI::App* verb = Innermost(&app);
  const std::string parent = ParentPath(verb);
  *console.err.stream << Paint(console.err, Style::kRed, "error:") << " "
                      << ErrorText(app, error, arguments) << "\nSee `" << parent
                      << (parent.empty() ? "" : " ") << verb->get_name()
                      << " --help`." << std::endl;
  return kUsage;
}

// Returns the code, or that of a failure when the output was not written.
int Written(const Console& console, int code) {
  console.out.stream->flush();
  if (console.out.stream->good()) return code;
  *console.err.stream << Paint(console.err, Style::kRed, "error:")
                      << " the output cannot be written; check whether its "
                         "disk is full"
                      << std::endl;
  return code == kOk ? kFailure : code;
}

}  // namespace

std::unique_ptr<CLI::App> MakeApp(GlobalOptions& options,
                                  Invocation& invocation) {
  auto app = std::make_unique<CLI::App>(kDescription, "gpupool");
  app->footer(kFooter);
  app->require_subcommand(1);
  app->formatter(MakeHelpFormatter());
  AddGlobalOptions(*app, options);
  AddVerbs(*app, invocation);
  return app;
}

int RunCommandLine(const std::vector<std::string>& arguments,
                   const Console& console, std::stop_token stop) {
  GlobalOptions options;
  Invocation invocation;
  const std::unique_ptr<CLI::App> app = MakeApp(options, invocation);
  if (arguments.empty()) {
    *console.err.stream << Help(*app);
    return kUsage;
  }
  // CLI11 reports errors by exceptions. They are caught here.
  try {
    // This overload takes the arguments in reverse order.
    app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return Written(console, ReportParseError(*app, error, arguments, console));
  }
  if (!invocation.chosen()) {
    *console.err.stream << Help(*app);
    return kUsage;
  }
  Context context(options, console, std::move(stop));
  return Written(console, invocation.chosen()(context));
}

}  // namespace gpupool::client
