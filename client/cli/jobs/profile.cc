// gpupool profile: times the nodes of a running job's next steps.
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
#include "client/cli/command/job_argument.h"
#include "client/cli/command/profile_report.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"
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
  uint32_t recorded = 0;
  bool list = false;
  ProfileFiles files;
};

int ListRecorded(Context& context, const v1::Job& job) {
  context.Print(job, [&] {
    Table table({{"CYCLE", Table::kRight},
                 {"FIRST STEP", Table::kRight},
                 {"STEPS", Table::kRight},
                 {"ATTEMPT", Table::kRight},
                 {"SIZE", Table::kRight}});
    for (const v1::RecordedProfile& profile : job.recorded_profiles()) {
      table.AddRow(
          {absl::StrCat(profile.cycle()), absl::StrCat(profile.first_step()),
           absl::StrCat(profile.steps()), absl::StrCat(profile.attempt()),
           FormatBytes(profile.bytes())});
    }
    table.Print(context.out(), context.headers());
  });
  return kOk;
}

int Profile(Context& context, const ProfileOptions& options) {
  if (options.files.trace.empty() && !options.list) {
    return context.Fail(absl::InvalidArgumentError(
        "-O, --file is not given; name the file to write"));
  }
  const absl::Status files = CheckProfileFiles(options.files);
  if (!files.ok()) return context.Fail(files);
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::Job> job = FindJob(**client, options.job);
  if (!job.ok()) return context.Fail(job.status());
  if (options.list) return ListRecorded(context, *job);
  v1::ProfileJobRequest request;
  request.set_id(job->id());
  request.set_steps(options.steps);
  request.set_recorded(options.recorded);
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
      "chrome://tracing. The job continues with the same results. Also shows "
      "profiles that the schedule in the job's file has recorded.",
      "  gpupool profile 7 -O trace.json\n"
      "  gpupool profile digits --steps 20 -O trace.json --flame flame.svg\n"
      "  gpupool profile digits --list\n"
      "  gpupool profile digits --recorded 1 -O trace.json");
  verb->add_option("JOB", options->job, kJobArgumentHelp)->required();
  verb->add_option("--steps", options->steps,
                   absl::StrCat("Number of steps, 1 to ", kMostSteps,
                                "; the job may end before them (default: ",
                                kDefaultSteps, ")"))
      ->check(CLI::Range(1u, kMostSteps))
      ->type_name("N");
  verb->add_option("--recorded", options->recorded,
                   "The profile that the job has recorded in this cycle of its "
                   "schedule, instead of the next steps")
      ->check(CLI::Range(1u, UINT32_MAX))
      ->type_name("CYCLE")
      ->excludes("--steps");
  verb->add_option("-O,--file", options->files.trace,
                   "The file to write; not with --list")
      ->type_name("FILE");
  AddPictureOptions(*verb, options->files);
  verb->add_flag("--list", options->list, "List the recorded profiles")
      ->excludes("--steps")
      ->excludes("--recorded")
      ->excludes("--file")
      ->excludes("--flame")
      ->excludes("--memory");
  invocation.On(verb, [options](Context& c) { return Profile(c, *options); });
}

}  // namespace gpupool::client
