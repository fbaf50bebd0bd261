// The context of a verb (global options, console, connection), and how a verb
// is added to the command line:
//
//   void AddCancel(CLI::App& app, Invocation& invocation) {
//     auto options = std::make_shared<CancelOptions>();
//     CLI::App* verb = AddVerb(app, "cancel", "Stop a job", "gpupool cancel
//     7"); verb->add_option("JOB", options->job, "...")->required();
//     invocation.On(verb, [options](Context& c) { return Cancel(c, *options);
//     });
//   }
//
// Parsing only chooses a command. The command runs afterwards, when all global
// options are known.
//
// Thread-safety: one thread, except that a signal handler may request `stop`.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/contexts/server_choice.h"
#include "client/cli/output/console.h"
#include "client/cli/output/output.h"
#include "client/client.h"

namespace CLI {
class App;
}

namespace gpupool::client {

struct GlobalOptions {
  ServerFlags server = {};
  OutputFormat output = OutputFormat::kTable;
  absl::Duration timeout = absl::Seconds(30);
  bool timeout_given = false;
  bool no_headers = false;
};

class Context {
 public:
  Context(const GlobalOptions& options, const Console& console,
          std::stop_token stop)
      : options_(options), console_(console), stop_(std::move(stop)) {}

  const GlobalOptions& options() const { return options_; }
  const Stream& out() const { return console_.out; }
  const Stream& err() const { return console_.err; }
  std::stop_token stop() const { return stop_; }
  bool headers() const { return !options_.no_headers; }

  // Returns the connection to the server, which the first call makes. It is
  // valid as long as this object.
  absl::StatusOr<Client*> client();

  // Prints `message` to `out` in the chosen output format.
  void Print(const google::protobuf::Message& message,
             const std::function<void()>& print_table) const;
  // Prints a line for users on `err`.
  void Say(absl::string_view text) const;
  // Prints "error: ..." on `err` and returns the exit code of `status`.
  int Fail(const absl::Status& status) const;

 private:
  const GlobalOptions& options_;
  const Console& console_;
  const std::stop_token stop_;
  std::unique_ptr<Client> client_;
};

using Command = std::function<int(Context&)>;

class Invocation {
 public:
  // Chooses `command` when the command line names `verb`. If it also names a
  // verb below `verb`, the lower verb's command is chosen.
  void On(CLI::App* verb, Command command);
  const Command& chosen() const { return chosen_; }

 private:
  Command chosen_;
};

// Adds a verb with its description and an example for its help.
CLI::App* AddVerb(CLI::App& app, const std::string& name,
                  const std::string& description, const std::string& example);

}  // namespace gpupool::client
