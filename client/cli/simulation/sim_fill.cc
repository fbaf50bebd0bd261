// gpupool sim fill: how much of a pool jobs get, by placement rule.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <ostream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/progress_line.h"
#include "client/cli/simulation/fill_result.h"
#include "client/files/trace_file.h"
#include "scheduler/simulator/fill.h"
#include "scheduler/simulator/openb.h"

namespace gpupool::client {
namespace {

using scheduler::FillNode;
using scheduler::FillOptions;
using scheduler::FillResult;
using scheduler::JobNeed;

constexpr uint64_t kMostSeeds = 1000;

struct FillVerb {
  std::string node_file;
  std::string pod_file;
  uint32_t nodes = 64;
  uint32_t jobs = 2000;
  std::vector<std::string> placements = {"spread", "best-fit", "pack"};
  std::string seeds = "42";
  bool unknown_mix = false;
  FillOptions fill;
};

// Machines, jobs and seeds that every placement gets.
struct Workload {
  std::vector<FillNode> nodes;
  std::vector<JobNeed> jobs;
  uint64_t first_seed = 0;
  uint64_t last_seed = 0;  // one fill for each of them
};

absl::Status In(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(file, ": ", status.message()));
}

// Parses "42" or "42-51".
absl::StatusOr<std::pair<uint64_t, uint64_t>> ParseSeeds(
    const std::string& text) {
  const std::pair<std::string, std::string> words =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  uint64_t first = 0;
  uint64_t last = 0;
  const bool is_one = text.find('-') == std::string::npos;
  if (absl::SimpleAtoi(words.first, &first) &&
      absl::SimpleAtoi(is_one ? words.first : words.second, &last) &&
      first <= last && last - first < kMostSeeds) {
    return std::make_pair(first, last);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--seeds is '", text, "'; write a number or, as in 42-51, ",
                   "the first and the last of at most ", kMostSeeds));
}

absl::StatusOr<Workload> ReadWorkload(const FillVerb& options) {
  const auto seeds = ParseSeeds(options.seeds);
  if (!seeds.ok()) return seeds.status();
  Workload workload{.first_seed = seeds->first, .last_seed = seeds->second};
  if (options.node_file.empty()) {
    workload.nodes = scheduler::GenerateNodes(options.nodes);
    workload.jobs = scheduler::GenerateNeeds(options.jobs, 1);
    return workload;
  }
  const auto node_text = ReadTraceFile(options.node_file);
  if (!node_text.ok()) return node_text.status();
  const auto pod_text = ReadTraceFile(options.pod_file);
  if (!pod_text.ok()) return pod_text.status();
  auto nodes = scheduler::ParseNodes(*node_text);
  if (!nodes.ok()) return In(options.node_file, nodes.status());
  auto jobs = scheduler::ParsePods(*pod_text);
  if (!jobs.ok()) return In(options.pod_file, jobs.status());
  workload.nodes = *std::move(nodes);
  workload.jobs = *std::move(jobs);
  return workload;
}

absl::StatusOr<Fills> FillAll(const Context& context, const FillVerb& options,
                              const Workload& workload,
                              const std::string& placement) {
  Fills fills{.placement = placement};
  const Stream& err = context.err();
  const absl::Time start = absl::Now();
  FillOptions fill = options.fill;
  fill.rule = *scheduler::ParsePlacementRule(placement);
  fill.mix_is_known = !options.unknown_mix;
  for (fill.seed = workload.first_seed; fill.seed <= workload.last_seed;
       ++fill.seed) {
    const auto progress = [&](double share) {
      if (err.is_terminal) {
        *err.stream << "\r\x1b[K"
                    << absl::StrFormat("%s, seed %d  %s %3.0f%%", placement,
                                       fill.seed, Bar(share, 30), share * 100)
                    << std::flush;
      }
      return !context.stop().stop_requested();
    };
    const absl::StatusOr<FillResult> result =
        scheduler::FillPool(workload.nodes, workload.jobs, fill, progress);
    if (err.is_terminal) *err.stream << "\r\x1b[K" << std::flush;
    if (!result.ok()) return result.status();
    fills.seeds.push_back({fill.seed, *result});
  }
  fills.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return fills;
}

int Fill(Context& context, const FillVerb& options) {
  if (options.node_file.empty() != options.pod_file.empty()) {
    return context.Fail(absl::InvalidArgumentError(
        "--node-file and --pod-file go together; give both or neither"));
  }
  const auto workload = ReadWorkload(options);
  if (!workload.ok()) return context.Fail(workload.status());
  std::vector<Fills> fills;
  for (const std::string& placement : options.placements) {
    auto done = FillAll(context, options, *workload, placement);
    if (absl::IsCancelled(done.status())) return kInterrupted;
    if (!done.ok()) return context.Fail(done.status());
    fills.push_back(*std::move(done));
  }
  // JSON is YAML, so one form serves both.
  if (context.options().output == OutputFormat::kTable) {
    FillTable(fills).Print(context.out(), context.headers());
  } else {
    *context.out().stream << FillJson(fills);
  }
  return kOk;
}

void AddWorkload(CLI::App& verb, FillVerb& options) {
  verb.add_option("--node-file", options.node_file,
                  "Machines as CSV or CSV.gz with the columns cpu_milli, "
                  "memory_mib, gpu and optionally model (default: generated)")
      ->type_name("FILE");
  verb.add_option(
          "--pod-file", options.pod_file,
          "Jobs as CSV or CSV.gz with the columns cpu_milli, memory_mib, "
          "num_gpu, gpu_milli and optionally gpu_spec (default: generated)")
      ->type_name("FILE");
  verb.add_option(
          "--machines", options.nodes,
          "Number of generated machines with 8 devices each (default: 64)")
      ->check(CLI::Range(1, 4096))
      ->excludes("--node-file")
      ->type_name("N");
  verb.add_option("--jobs", options.jobs,
                  "Number of generated jobs to draw from (default: 2000)")
      ->check(CLI::Range(1, 1000000))
      ->excludes("--pod-file")
      ->type_name("N");
}

}  // namespace

void AddSimFill(CLI::App& sim, Invocation& invocation) {
  auto options = std::make_shared<FillVerb>();
  CLI::App* verb =
      AddVerb(sim, "fill",
              "Submit jobs that never end, until they have asked for more "
              "devices than the pool has, and show the share of the devices "
              "that they got. A job without room is dropped.",
              "  gpupool sim fill --machines 16 --seeds 1-3\n"
              "  gpupool sim fill --node-file nodes.csv --pod-file pods.csv "
              "--placement pack");
  AddWorkload(*verb, *options);
  verb->add_option("--placement", options->placements,
                   "Placement rule; several, separated by commas, are compared "
                   "(default: spread,best-fit,pack)")
      ->delimiter(',')
      ->check(CLI::IsMember({"spread", "best-fit", "pack"}))
      ->type_name("RULE");
  verb->add_option(
          "--tune", options->fill.ratio,
          "Devices that are asked for over existing devices (default: 1.3)")
      ->check(CLI::Range(0.01, 100.0))
      ->type_name("RATIO");
  verb->add_option("--seeds", options->seeds,
                   "Seeds of the order of the jobs: one, or the first and the "
                   "last as in 42-51; figures are means (default: 42)")
      ->type_name("N-M");
  verb->add_flag("--unknown-mix", options->unknown_mix,
                 "Learn typical needs from the jobs instead of knowing them "
                 "from the start");
  invocation.On(verb, [options](Context& c) { return Fill(c, *options); });
}

}  // namespace gpupool::client
