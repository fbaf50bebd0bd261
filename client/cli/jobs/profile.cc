// gpupool profile: times the nodes of a running job's next steps.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/profile_report.h"
#include "client/cli/command/verbs.h"
#include "client/profile_file.h"
#include "client/text/counted.h"
#include "client/text/units.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::client {
namespace {

constexpr uint32_t kDefaultSteps = v1::DEFAULT_PROFILED_STEPS;
constexpr uint32_t kMostSteps = v1::MAX_PROFILED_STEPS;

struct ProfileOptions {
  std::string job;
  uint32_t steps = 0;
  ProfileFiles files;
};

int Profile(Context& context, const ProfileOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::Job> job = FindJob(**client, options.job);
  if (!job.ok()) return context.Fail(job.status());
  v1::ProfileJobRequest request;
  request.set_id(job->id());
  request.set_steps(options.steps);
  const auto profile = ProfileJob(**client, request, options.files.trace);
  if (!profile.ok()) return context.Fail(profile.status());
  std::ostream& out = *context.out().stream;
  if (context.options().output == OutputFormat::kTable) {
    out << options.files.trace << ": " << Counted(profile->steps, "step")
        << ", " << FormatBytes(profile->bytes)
        << "; open it at https://ui.perfetto.dev\n";
  } else {
    // JSON is YAML, so one form serves both.
    const nlohmann::ordered_json json = {{"file", options.files.trace},
                                         {"steps", profile->steps},
                                         {"bytes", profile->bytes}};
    out << json.dump(2) << "\n";
  }
  const absl::Status shown = ShowProfile(context, options.files);
  return shown.ok() ? kOk : context.Fail(shown);
}

}  // namespace

void AddProfile(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* verb = AddVerb(
      app, "profile",
      "Time each node of the next steps of a running job. Prints where the "
      "time goes by op and by layer, and writes a trace for ui.perfetto.dev or "
      "chrome://tracing. The job continues with the same results.",
      "  gpupool profile 7 -O trace.json\n"
      "  gpupool profile digits --steps 20 -O trace.json --flame flame.svg");
  verb->add_option("JOB", options->job, kJobArgumentHelp)->required();
  verb->add_option("--steps", options->steps,
                   absl::StrCat("Number of steps, 1 to ", kMostSteps,
                                "; the job may end before them (default: ",
                                kDefaultSteps, ")"))
      ->check(CLI::Range(1u, kMostSteps))
      ->type_name("N");
  verb->add_option("-O,--file", options->files.trace, "The file to write")
      ->required()
      ->type_name("FILE");
  AddPictureOptions(*verb, options->files);
  invocation.On(verb, [options](Context& c) { return Profile(c, *options); });
}

}  // namespace gpupool::client
