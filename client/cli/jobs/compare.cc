// gpupool compare: trains a job file for a few steps with each of several
// precisions.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/compare_view.h"
#include "client/cli/jobs/follow.h"
#include "client/cli/jobs/job_plot.h"
#include "client/cli/jobs/precision_run.h"
#include "client/cli/jobs/submit_job.h"
#include "client/cli/output/job_view.h"
#include "client/files/partial_file.h"
#include "client/text/counted.h"
#include "client/yaml/precision_words.h"

namespace gpupool::client {
namespace {

constexpr uint32_t kMostComparedSteps = 1'000'000;

struct CompareOptions {
  SubmitOptions job;
  std::vector<std::string> precisions = {"float32", "tf32", "bfloat16",
                                         "float16"};
  uint32_t steps = 100;
  std::string device;   // overrides the file's, when not empty
  std::string picture;  // file; empty: none
};

struct Comparison {
  v1::JobSpec spec;  // of the job file
  std::vector<v1::Precision> precisions;
  uint32_t steps = 0;
  std::vector<PrecisionRun> runs;  // those that have ended
};

absl::StatusOr<std::vector<v1::Precision>> ParsePrecisions(
    const std::vector<std::string>& words) {
  if (words.empty()) {
    return absl::InvalidArgumentError(
        "--precision is empty; name precisions, as in float32,bfloat16");
  }
  std::vector<v1::Precision> precisions;
  for (const std::string& word : words) {
    const absl::StatusOr<v1::Precision> precision = ParsePrecision(word);
    if (!precision.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--precision: ", precision.status().message()));
    }
    if (std::find(precisions.begin(), precisions.end(), *precision) !=
        precisions.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--precision names ", ArithmeticWord(*precision),
                       " twice (as '", word, "'); name each precision once"));
    }
    precisions.push_back(*precision);
  }
  return precisions;
}

// Reads the job file and uploads what it names.
absl::StatusOr<v1::JobSpec> ReadyJob(Context& context, Client& client,
                                     const CompareOptions& options) {
  absl::StatusOr<v1::JobSpec> spec = ReadJob(options.job);
  if (!spec.ok()) return spec;
  if (spec->has_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.job.file, " describes an array of jobs (",
                     spec->array().indices(),
                     "); compare takes a file of one job: leave out `array`"));
  }
  if (!options.device.empty()) spec->set_device(options.device);
  const absl::Status files = EnsureFiles(context, client, options.job, *spec);
  if (!files.ok()) return files;
  return spec;
}

// Returns whether the server refused this job, not all jobs.
bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status);
}

// Cancels a job that must not outlive the command.
void CancelRun(Context& context, Client& client, const v1::Job& job) {
  const std::string name =
      absl::StrCat("job ", job.id(), " (", job.spec().name(), ")");
  v1::CancelJobRequest request;
  request.set_id(job.id());
  const absl::StatusOr<v1::Job> cancelled = client.CancelJob(request);
  if (cancelled.ok()) {
    context.Say(absl::StrCat(name, " is ", StateText(cancelled->state())));
  } else {
    context.Say(absl::StrCat(name,
                             " may still run: ", cancelled.status().message(),
                             "   Stop it: gpupool cancel ", job.id()));
  }
}

// Returns why a precision was not trained to its end.
std::string WhyText(const PrecisionRun& run) {
  const std::string reason = run.reason();
  return reason.empty() ? StateText(run.job.state()) : reason;
}

// Prints why a precision was not trained to its end, and the server's hint.
void SayWhyNot(Context& context, const PrecisionRun& run) {
  context.Say(absl::StrCat(ArithmeticWord(run.precision), ": ", WhyText(run)));
  if (!run.job.error().hint().empty()) {
    context.Say(absl::StrCat("  hint: ", run.job.error().hint()));
  }
}

// Trains `spec` to its end and fills in `run`. A job that the server refuses or
// that fails is not an error. Returns Cancelled when the user interrupts.
// Cancels the job before it returns an error.
absl::Status Train(Context& context, Client& client, const v1::JobSpec& spec,
                   PrecisionRun& run) {
  v1::SubmitJobRequest request;
  request.set_request_id(NewRequestId());
  *request.mutable_spec() = spec;
  const absl::StatusOr<JobOrArray> taken = SubmitSpec(client, request);
  if (!taken.ok()) {
    if (absl::IsUnavailable(taken.status())) {
      context.Say(absl::StrCat(
          "it is not known whether the job was accepted; look with: "
          "gpupool jobs --name ",
          spec.name()));
    }
    if (!IsRefusal(taken.status())) return taken.status();
    run.refusal = taken.status();
    return absl::OkStatus();
  }
  run.job = std::get<v1::Job>(*taken);
  context.Say(absl::StrCat(ArithmeticWord(run.precision), ": job ",
                           run.job.id(), " (", run.job.spec().name(),
                           "); Ctrl-C cancels it"));
  const absl::StatusOr<v1::Job> ended = FollowJob(
      context, client, run.job,
      {.progress_on_err = true,
       .take_events = [&run](const v1::JobEvent& event) { run.OnEvent(event); },
       .interrupt_detaches = false});
  if (ended.ok()) {
    run.job = *ended;
  } else {
    CancelRun(context, client, run.job);
  }
  return ended.status();
}

// Trains each precision in turn, all where the first one ran, and adds each to
// the runs when it has ended. Stops at the first error that is not of one
// precision alone, and returns it.
absl::Status TrainAll(Context& context, Client& client,
                      Comparison& comparison) {
  const auto pool = client.ListDevices({});
  if (!pool.ok()) return pool.status();
  v1::JobSpec& spec = comparison.spec;
  for (const v1::Precision precision : comparison.precisions) {
    if (context.stop().stop_requested()) {
      return absl::CancelledError("interrupted");
    }
    PrecisionRun run{.precision = precision};
    const std::string why = WhyNot(precision, spec, *pool);
    if (!why.empty()) {
      run.refusal = absl::InvalidArgumentError(why);
    } else {
      const absl::Status status = Train(
          context, client, ShortJob(spec, precision, comparison.steps), run);
      if (!status.ok()) return status;
    }
    if (!run.trained()) SayWhyNot(context, run);
    RunWhere(run.job, spec);
    comparison.runs.push_back(std::move(run));
  }
  return absl::OkStatus();
}

// Returns "digits on cpu:0".
std::string NameOf(const Comparison& comparison) {
  const PrecisionRun* base = BaseOf(comparison.runs);
  if (base == nullptr) return comparison.spec.name();
  return absl::StrCat(comparison.spec.name(), " on ", DevicesText(base->job));
}

void PrintRuns(Context& context, const Comparison& comparison) {
  if (comparison.runs.empty()) return;
  if (context.options().output != OutputFormat::kTable) {
    // JSON is YAML, so one form serves both.
    *context.out().stream << CompareJson(comparison.runs);
    return;
  }
  CompareTable(comparison.runs).Print(context.out(), context.headers());
  const PrecisionRun* base = BaseOf(comparison.runs);
  if (base == nullptr) return;
  context.Say(absl::StrCat(NameOf(comparison), ", ",
                           Counted(comparison.steps, "step"),
                           " each; speed and differences are those to ",
                           ArithmeticWord(base->precision)));
}

absl::Status WritePicture(Context& context, const Comparison& comparison,
                          const std::string& file) {
  if (file.empty() || comparison.runs.empty()) return absl::OkStatus();
  std::vector<std::pair<std::string, const Curve*>> losses;
  for (const PrecisionRun& run : comparison.runs) {
    losses.emplace_back(ArithmeticWord(run.precision), &run.losses);
  }
  absl::Status written = WriteWholeFile(
      file, LossPicture(losses, absl::StrCat("steps of ", NameOf(comparison))));
  if (written.ok()) {
    context.Say(absl::StrCat(file, ": the losses of ", NameOf(comparison)));
  }
  return written;
}

// Returns OK if a precision was trained to its end, else an error with the
// first reason.
absl::Status OutcomeOf(const std::vector<PrecisionRun>& runs) {
  if (BaseOf(runs) != nullptr) return absl::OkStatus();
  const PrecisionRun& first = runs.front();
  return absl::Status(
      first.refusal.ok() ? absl::StatusCode::kUnknown : first.refusal.code(),
      absl::StrCat("no precision could be trained; ",
                   ArithmeticWord(first.precision), ": ", WhyText(first)));
}

int Compare(Context& context, const CompareOptions& options) {
  const absl::StatusOr<std::vector<v1::Precision>> precisions =
      ParsePrecisions(options.precisions);
  if (!precisions.ok()) return context.Fail(precisions.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  absl::StatusOr<v1::JobSpec> spec = ReadyJob(context, **client, options);
  if (!spec.ok()) return context.Fail(spec.status());
  Comparison comparison{.spec = *std::move(spec),
                        .precisions = *precisions,
                        .steps = options.steps,
                        .runs = {}};
  const absl::Status trained = TrainAll(context, **client, comparison);
  PrintRuns(context, comparison);
  const absl::Status written =
      WritePicture(context, comparison, options.picture);
  if (absl::IsCancelled(trained)) return kInterrupted;
  if (!trained.ok()) return context.Fail(trained);
  if (!written.ok()) return context.Fail(written);
  const absl::Status outcome = OutcomeOf(comparison.runs);
  return outcome.ok() ? kOk : context.Fail(outcome);
}

}  // namespace

void AddCompare(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* verb = AddVerb(
      app, "compare",
      "Train a job file for a few steps with each of several precisions, one "
      "after the other on the same device, and compare speed, memory and loss. "
      "Nothing is published. Exits with 0 when a precision was trained to its "
      "end. Ctrl-C cancels the running job.",
      "  gpupool compare --precision float32,bfloat16 examples/digits.yaml \\\n"
      "      --data examples/data/digits.csv.gz -O losses.svg\n"
      "  gpupool compare --steps 500 --device cuda:1 job.yaml -o json");
  AddJobFileOptions(*verb, options->job);
  verb->add_option("--precision", options->precisions,
                   "The precisions, in the order of the runs; others are "
                   "compared with the first that trains (default: "
                   "float32,tf32,bfloat16,float16)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...");
  verb->add_option("--steps", options->steps,
                   "Number of steps of each run (default: 100)")
      ->check(CLI::Range(1u, kMostComparedSteps))
      ->type_name("N");
  verb->add_option("--device", options->device,
                   "Where to run: a device, a kind or any (default: the job "
                   "file's)")
      ->type_name("DEVICE");
  verb->add_option("-O,--file", options->picture,
                   "Write the curves of the losses to a picture (SVG)")
      ->type_name("FILE");
  invocation.On(verb, [options](Context& c) { return Compare(c, *options); });
}

}  // namespace gpupool::client
