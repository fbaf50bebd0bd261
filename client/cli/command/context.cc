#include "client/cli/command/context.h"

#include <CLI/App.hpp>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/output/progress_line.h"
#include "client/text/quote.h"

namespace gpupool::client {

absl::StatusOr<Client*> Context::client() {
  if (client_ == nullptr) {
    absl::StatusOr<ServerChoice> choice = ChooseServer(options_.server);
    if (!choice.ok()) return choice.status();
    ClientOptions options;
    options.address = choice->address;
    options.tls = choice->tls;
    options.token = choice->token;
    options.call_timeout = options_.timeout;
    options.upload_stop = stop_;
    options.upload_notice = [this](const std::string& line) {
      // A progress line may stand in this row.
      if (err().is_terminal) *err().stream << "\r\x1b[K";
      Say(line);
    };
    if (err().is_terminal) {
      options.upload_reading = [this](const std::string& file, uint64_t read,
                                      uint64_t total) {
        *err().stream << "\r\x1b[K"
                      << TransferText(absl::StrCat("reading ", Printable(file)),
                                      read, total)
                      << std::flush;
      };
    }
    absl::StatusOr<std::unique_ptr<Client>> client =
        Client::Create(std::move(options));
    if (!client.ok() && !choice->context.empty()) {
      return absl::Status(client.status().code(),
                          absl::StrCat("context ", Quoted(choice->context),
                                       ": ", client.status().message()));
    }
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
  }
  return client_.get();
}

void Context::Print(const google::protobuf::Message& message,
                    const std::function<void()>& print_table) const {
  PrintResult(out(), options_.output, message, print_table);
}

void Context::Say(absl::string_view text) const {
  *err().stream << text << std::endl;
}

int Context::Fail(const absl::Status& status) const {
  *err().stream << Paint(err(), Style::kRed, "error:") << " "
                << status.message() << std::endl;
  return ExitCodeFor(status);
}

void Invocation::On(CLI::App* verb, Command command) {
  verb->callback([this, command = std::move(command)] {
    if (!chosen_) chosen_ = command;
  });
}

CLI::App* AddVerb(CLI::App& app, const std::string& name,
                  const std::string& description, const std::string& example) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->fallthrough();
  verb->footer(absl::StrCat("Example:\n", example,
                            "\n\n`gpupool --help` lists the options that "
                            "every verb takes."));
  return verb;
}

}  // namespace gpupool::client
