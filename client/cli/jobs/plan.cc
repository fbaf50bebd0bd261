// gpupool plan: what a job needs and where it fits, before anything runs.
#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/submit_job.h"
#include "client/cli/models/data_options.h"
#include "client/cli/models/plan_view.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

struct PlanOptions {
  std::string file;
  std::string queue;  // overrides the file's, when not empty
  DataOptions data;
};

void PrintStart(std::ostream& out, const v1::StartForecast& start) {
  if (start.has_time()) {
    const absl::Time time = absl::FromUnixSeconds(start.time().seconds()) +
                            absl::Nanoseconds(start.time().nanos());
    const absl::Duration left = time - absl::Now();
    out << "would start "
        << (start.waits_for().empty()
                ? std::string("at once")
                : absl::StrCat(
                      "at ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", time,
                                       absl::LocalTimeZone()),
                      ", in ",
                      FormatSpan(std::max(left, absl::ZeroDuration()))))
        << " on " << absl::StrJoin(start.devices(), ", ") << "\n";
  } else {
    out << "when it would start is unknown: " << start.why_unknown() << "\n";
  }
  if (!start.waits_for().empty() && start.waits_for() != start.why_unknown()) {
    out << "now: " << start.waits_for() << "\n";
  }
}

void PrintPlan(const Context& context, const v1::JobSpec& spec,
               const v1::PlanJobResponse& answer,
               const v1::ListDevicesResponse& pool) {
  std::ostream& out = *context.out().stream;
  const v1::Plan& plan = answer.plan();
  if (answer.total_steps() == 0) {
    out << "dataset \"" << spec.data().dataset()
        << "\" is not uploaded: planned from the model alone\n";
  }
  if (spec.has_array()) {
    out << "an array of tasks " << spec.array().indices();
    if (spec.array().max_at_once() > 0) {
      out << ", at most " << spec.array().max_at_once() << " at once";
    }
    out << "; the first of them:\n";
  }
  out << spec.name() << ": " << GroupDigits(plan.parameters())
      << (plan.parameters() == 1 ? " parameter, " : " parameters, ")
      << (answer.total_steps() > 0 ? GroupDigits(answer.total_steps())
                                   : "an unknown number of")
      << (answer.total_steps() == 1 ? " step of " : " steps of ")
      << FormatCount(static_cast<double>(plan.training_flops_per_step()))
      << " FLOPs\n";
  if (spec.devices() > 1) {
    out << "on " << spec.devices() << " x "
        << (spec.device().empty() || spec.device() == "any"
                ? "one kind of device"
                : spec.device())
        << ", " << FormatBytes(plan.training().peak()) << " each\n";
  }
  PrintStart(out, answer.start());
  out << "\n";
  PrintPlanParts(context, plan, answer.devices(), pool);
  if (answer.advice().empty()) return;
  out << "\nadvice\n";
  for (const std::string& sentence : answer.advice()) {
    out << "- " << sentence << "\n";
  }
}

int Plan(Context& context, const PlanOptions& options) {
  v1::PlanJobRequest request;
  absl::StatusOr<v1::JobSpec> spec = ReadJobFile(options.file);
  if (!spec.ok()) return context.Fail(spec.status());
  if (!options.queue.empty()) spec->set_queue(options.queue);
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::Status model =
      EnsureModel(context, **client, options.file, *spec);
  if (!model.ok()) return context.Fail(model);
  const absl::Status data =
      EnsureData(context, **client, spec->data().dataset(), options.data);
  if (!data.ok()) return context.Fail(data);
  *request.mutable_spec() = *spec;
  request.set_advise(true);
  const auto answer = (*client)->PlanJob(request);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    const auto pool = (*client)->ListDevices({});
    PrintPlan(context, *spec, *answer,
              pool.ok() ? *pool : v1::ListDevicesResponse());
  });
  return kOk;
}

}  // namespace

void AddPlan(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* verb = AddVerb(
      app, "plan",
      "Show what a job needs (parameters, bytes by class, layers), on which "
      "devices it fits, when and where it would start, and what to change "
      "in the job file. Nothing runs.",
      "  gpupool plan examples/digits.yaml --data "
      "examples/data/digits.csv.gz\n"
      "  gpupool plan job.yaml -o json | jq .plan.training.peak");
  verb->add_option("FILE", options->file,
                   "The job, as YAML; - reads standard input")
      ->required();
  verb->add_option("--queue", options->queue,
                   "Queue of the job (default: the job file's)")
      ->type_name("NAME");
  AddDataOption(*verb, options->data);
  invocation.On(verb, [options](Context& c) { return Plan(c, *options); });
}

}  // namespace gpupool::client
