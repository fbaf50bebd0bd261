// gpupool models profile: times the nodes of a served model.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/profile_report.h"
#include "client/cli/command/verbs.h"
#include "client/profile_file.h"
#include "client/text/counted.h"
#include "client/text/units.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::client {
namespace {

constexpr uint32_t kDefaultRequests = v1::DEFAULT_PROFILED_STEPS;
constexpr uint32_t kMostRequests = v1::MAX_PROFILED_STEPS;

struct ModelProfileOptions {
  std::string model;
  uint64_t version = 0;
  uint32_t requests = 0;
  uint32_t rows = 0;
  ProfileFiles files;
};

int ProfileServed(Context& context, const ModelProfileOptions& options) {
  const absl::Status files = CheckProfileFiles(options.files);
  if (!files.ok()) return context.Fail(files);
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ProfileModelRequest request;
  request.set_model(options.model);
  request.set_version(options.version);
  request.set_requests(options.requests);
  request.set_rows(options.rows);
  const auto profile = ProfileModel(**client, request, options.files.trace);
  if (!profile.ok()) return context.Fail(profile.status());
  const std::string version =
      absl::StrCat(options.model, "/", profile->version);
  std::ostream& out = *context.out().stream;
  if (context.options().output == OutputFormat::kTable) {
    out << options.files.trace << ": " << version << ", "
        << Counted(profile->steps, "request") << ", "
        << FormatBytes(profile->bytes)
        << "; open it at https://ui.perfetto.dev\n";
  } else {
    // JSON is YAML, so one form serves both.
    const nlohmann::ordered_json json = {{"file", options.files.trace},
                                         {"version", version},
                                         {"requests", profile->steps},
                                         {"bytes", profile->bytes}};
    out << json.dump(2) << "\n";
  }
  const absl::Status shown = ShowProfile(context, options.files);
  return shown.ok() ? kOk : context.Fail(shown);
}

}  // namespace

void AddModelsProfile(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<ModelProfileOptions>();
  CLI::App* verb = AddVerb(
      models, "profile",
      "Time each node of a served model in requests of random numbers. Prints "
      "where the time goes by op and by layer, and writes a trace for "
      "ui.perfetto.dev or chrome://tracing. The model answers its clients "
      "meanwhile.",
      "  gpupool models profile digits -O trace.json\n"
      "  gpupool models profile digits --version 2 --requests 20 --batch 1 \\\n"
      "      -O trace.json --flame flame.svg");
  verb->add_option("NAME", options->model, "The model")->required();
  verb->add_option("--version", options->version,
                   "The version (default: the newest that is served)")
      ->type_name("V");
  verb->add_option("--requests", options->requests,
                   absl::StrCat("Number of requests, 1 to ", kMostRequests,
                                " (default: ", kDefaultRequests, ")"))
      ->check(CLI::Range(1u, kMostRequests))
      ->type_name("N");
  verb->add_option("--batch", options->rows,
                   "Rows in one request (default: as many as it takes)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  verb->add_option("-O,--file", options->files.trace, "The file to write")
      ->required()
      ->type_name("FILE");
  AddPictureOptions(*verb, options->files);
  invocation.On(verb,
                [options](Context& c) { return ProfileServed(c, *options); });
}

}  // namespace gpupool::client
