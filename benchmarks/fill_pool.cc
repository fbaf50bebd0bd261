// How much of a pool's devices do jobs get until nothing more fits? Reads the
// nodes and pods of openb (scheduler/simulator/openb.h) as CSV and makes one
// fill for each seed (scheduler/simulator/fill.h). Prints one JSON line per
// fill.
//
//   fill_pool NODES.csv PODS.csv RULE RATIO FIRST_SEED LAST_SEED [learn]
//
// RULE is spread, best-fit or pack. With `learn` the typical needs are not
// known from the start.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "scheduler/simulator/fill.h"
#include "scheduler/simulator/openb.h"

namespace {

using namespace gpupool::scheduler;  // NOLINT(google-build-using-namespace)

int Fail(const std::string& what) {
  std::fprintf(stderr, "fill_pool: %s\n", what.c_str());
  return 2;
}

std::string Read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  FillOptions options;
  uint64_t first = 0;
  uint64_t last = 0;
  if (argc < 7 || !absl::SimpleAtod(argv[4], &options.ratio) ||
      !absl::SimpleAtoi(argv[5], &first) || !absl::SimpleAtoi(argv[6], &last)) {
    return Fail("NODES.csv PODS.csv RULE RATIO FIRST_SEED LAST_SEED [learn]");
  }
  options.mix_is_known = argc < 8;
  const auto rule = ParsePlacementRule(argv[3]);
  if (!rule.ok()) return Fail(std::string(rule.status().message()));
  options.rule = *rule;
  const auto nodes = ParseNodes(Read(argv[1]));
  if (!nodes.ok()) return Fail(std::string(nodes.status().message()));
  const auto jobs = ParsePods(Read(argv[2]));
  if (!jobs.ok()) return Fail(std::string(jobs.status().message()));
  for (options.seed = first; options.seed <= last; ++options.seed) {
    const auto result =
        FillPool(*nodes, *jobs, options, [](double) { return true; });
    if (!result.ok()) return Fail(std::string(result.status().message()));
    std::printf(
        "{\"rule\": \"%s\", \"seed\": %llu, \"jobs\": %llu, \"dropped\": %llu, "
        "\"asked\": %.4f, \"allocated_at_full\": %.4f, \"allocated\": %.4f, "
        "\"fragmented\": %.4f}\n",
        argv[3], static_cast<unsigned long long>(options.seed),
        static_cast<unsigned long long>(result->jobs),
        static_cast<unsigned long long>(result->dropped), result->asked,
        result->allocated_at_full, result->allocated, result->fragmented);
    std::fflush(stdout);
  }
}
