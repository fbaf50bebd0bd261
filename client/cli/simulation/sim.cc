// gpupool sim: replays a trace of jobs under one or more policies, without a
// server.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/progress_line.h"
#include "client/cli/simulation/sim_plot.h"
#include "client/cli/simulation/sim_result.h"
#include "client/files/trace_file.h"
#include "client/text/counted.h"
#include "client/text/quote.h"
#include "client/text/units.h"
#include "scheduler/simulator/policies.h"
#include "scheduler/simulator/trace.h"

namespace gpupool::client {
namespace {

using scheduler::ReplayOptions;
using scheduler::ReplayResult;
using scheduler::SimulatedPolicies;
using scheduler::SimulatedPolicy;
using scheduler::TraceJob;

struct SimOptions {
  std::string trace;  // empty: a generated one
  std::vector<std::string> policies = {"fifo"};
  ReplayOptions replay;
  scheduler::GeneratedTrace generated;
  std::string plot;
};

uint32_t DevicesOf(const SimOptions& options) {
  return options.replay.nodes * options.replay.devices_per_node;
}

absl::StatusOr<std::vector<TraceJob>> ReadTrace(const SimOptions& options) {
  if (options.trace.empty()) {
    scheduler::GeneratedTrace generated = options.generated;
    generated.devices = DevicesOf(options);
    return scheduler::GenerateTrace(generated);
  }
  const absl::StatusOr<std::string> text = ReadTraceFile(options.trace);
  if (!text.ok()) return text.status();
  auto trace = scheduler::ParseTrace(*text);
  if (trace.ok()) return trace;
  return absl::Status(
      trace.status().code(),
      absl::StrCat(options.trace, ": ", trace.status().message()));
}

absl::StatusOr<SimResult> Replay(const Context& context,
                                 const SimOptions& options,
                                 const std::vector<TraceJob>& trace,
                                 const std::string& word) {
  const SimulatedPolicy& policy = *scheduler::FindPolicy(word);
  ReplayOptions replay = options.replay;
  replay.policy.order = policy.order;
  replay.run_times_known = policy.sees_run_times;
  const Stream& err = context.err();
  const auto show = [&](absl::string_view line) {
    if (err.is_terminal) *err.stream << "\r\x1b[K" << line << std::flush;
  };
  const absl::Time start = absl::Now();
  const auto progress = [&](double share) {
    show(absl::StrFormat("%s  %s %3.0f%%", policy.word(), Bar(share, 30),
                         share * 100));
    return !context.stop().stop_requested();
  };
  absl::StatusOr<ReplayResult> result =
      scheduler::ReplayTrace(trace, replay, progress);
  show("");
  if (!result.ok()) return result.status();
  return SimResult{.policy = std::string(policy.word()),
                   .summary = Summarize(*result),
                   .seconds = absl::ToDoubleSeconds(absl::Now() - start),
                   .replay = *std::move(result)};
}

absl::Status WritePlot(const std::string& path, const std::string& svg) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << svg;
  file.close();
  if (file) return absl::OkStatus();
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO,
                             absl::StrCat("cannot write the plot ", path));
}

void PrintResults(const Context& context,
                  const std::vector<SimResult>& results) {
  switch (context.options().output) {
    case OutputFormat::kTable:
      SimTable(results).Print(context.out(), context.headers());
      return;
    case OutputFormat::kJson:
      *context.out().stream << SimJson(results);
      return;
    case OutputFormat::kYaml:
      *context.out().stream << SimYaml(results);
      return;
  }
}

int Sim(Context& context, const SimOptions& options) {
  constexpr uint32_t kMost = scheduler::kMostTraceDevices;
  if (DevicesOf(options) > kMost) {
    return context.Fail(absl::InvalidArgumentError(absl::StrCat(
        Counted(options.replay.nodes, "node"), " with ",
        Counted(options.replay.devices_per_node, "device"), " each are ",
        DevicesOf(options), " devices; at most ", kMost, " can be simulated")));
  }
  const auto trace = ReadTrace(options);
  if (!trace.ok()) return context.Fail(trace.status());
  std::vector<SimResult> results;
  for (const std::string& word : options.policies) {
    absl::StatusOr<SimResult> result = Replay(context, options, *trace, word);
    if (absl::IsCancelled(result.status())) return kInterrupted;
    if (!result.ok()) return context.Fail(result.status());
    results.push_back(*std::move(result));
  }
  PrintResults(context, results);
  if (options.plot.empty()) return kOk;
  const absl::Status written =
      WritePlot(options.plot, SimPlot(results, DevicesOf(options)));
  return written.ok() ? kOk : context.Fail(written);
}

// Returns "fifo: first come, ...; las: ...".
std::string PoliciesText() {
  std::string text;
  for (const SimulatedPolicy& policy : SimulatedPolicies()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", policy.word(), ": ",
                    policy.text);
  }
  return text;
}

std::vector<std::string> PolicyWords() {
  std::vector<std::string> words;
  for (const SimulatedPolicy& policy : SimulatedPolicies()) {
    words.emplace_back(policy.word());
  }
  return words;
}

// Adds an option for a span of time that may be 0.
void AddSpan(CLI::App& verb, const std::string& name, absl::Duration& value,
             const std::string& text) {
  verb.add_option_function<std::string>(
          name,
          [&value, name](const std::string& word) {
            if (word == "0" || word == "0s") {
              value = absl::ZeroDuration();
              return;
            }
            const absl::StatusOr<absl::Duration> span = ParseSpan(word);
            if (!span.ok()) {
              throw CLI::ValidationError(
                  name, absl::StrCat(Quoted(word),
                                     " is not a duration from 0 up; write for "
                                     "example 0, 30s, 2m, 1h30m or 2d"));
            }
            value = *span;
          },
          text)
      ->type_name("DURATION");
}

void AddPool(CLI::App& verb, SimOptions& options) {
  verb.add_option("--nodes", options.replay.nodes,
                  "Number of machines (default: 1)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  verb.add_option("--devices-per-node", options.replay.devices_per_node,
                  "Devices of each machine (default: 8)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
}

void AddPolicy(CLI::App& verb, SimOptions& options) {
  scheduler::QueuePolicy& policy = options.replay.policy;
  verb.add_option(
          "--policy", options.policies,
          absl::StrCat("Which job goes first; several orders, separated by "
                       "commas, are compared (default: fifo). ",
                       PoliciesText()))
      ->delimiter(',')
      ->check(CLI::IsMember(PolicyWords()))
      ->type_name("POLICY");
  verb.add_option("--hysteresis", policy.hysteresis,
                  "A job is preempted when its standing is this many times "
                  "that of a waiting job (default: 2)")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("FACTOR");
  AddSpan(verb, "--min-run", policy.min_run,
          "No job is preempted before it has run for this time (default: 0)");
  AddSpan(verb, "--restart-cost", policy.restart_cost,
          "Time that each resume costs a job while it holds its devices "
          "(default: 60s)");
}

void AddTrace(CLI::App& verb, SimOptions& options) {
  verb.add_option("--trace", options.trace,
                  "The jobs as CSV or CSV.gz with the columns submit_s, gpus, "
                  "duration_s and, if known, job_id and tenant or vc; - reads "
                  "standard input (default: a generated trace)")
      ->type_name("FILE");
  verb.add_option("--jobs", options.generated.jobs,
                  "Number of jobs of a generated trace (default: 5000)")
      ->check(CLI::Range(1, 1000000))
      ->excludes("--trace")
      ->type_name("N");
  verb.add_option("--load", options.generated.load,
                  "Work of a generated trace, as a share of what the pool can "
                  "do in its time (default: 0.9)")
      ->check(CLI::Range(0.01, 10.0))
      ->excludes("--trace")
      ->type_name("SHARE");
  verb.add_option("--seed", options.generated.seed,
                  "Random seed of a generated trace (default: 1)")
      ->excludes("--trace")
      ->type_name("N");
}

}  // namespace

void AddSim(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* verb = AddVerb(
      app, "sim",
      "Replay a trace of jobs through the scheduler in virtual time and say "
      "how long they took. No server is asked.",
      "  gpupool sim --nodes 8 --policy fifo,las,srs\n"
      "  gpupool sim --trace jobs.csv.gz --nodes 52 --policy las -o json\n"
      "  gpupool sim --policy las --policy srs --plot las-srs.svg");
  AddTrace(*verb, *options);
  AddPool(*verb, *options);
  AddPolicy(*verb, *options);
  verb->add_option("--plot", options->plot,
                   "Also draw completion times, busy devices and waiting jobs "
                   "into this SVG file")
      ->type_name("FILE");
  invocation.On(verb, [options](Context& c) { return Sim(c, *options); });
  AddSimFill(*verb, invocation);
}

}  // namespace gpupool::client
