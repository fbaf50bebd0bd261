// Random and mutated ONNX graphs are imported, compiled and run on the
// reference and on the CPU: no crash, no hang, no difference beyond what the
// arithmetic allows (noise.h, number_comparison.h). campaign.h tells how to run
// more of them, or one again.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/graph_mutations.h"
#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

onnx::ModelProto RandomGraph(uint64_t seed,
                             const GraphWriter::Observer& observer) {
  GraphWriter writer(seed, observer);
  const int64_t nodes = writer.dice().Between(1, 10);
  for (int64_t i = 0; i < nodes; ++i) AddRandomNode(writer);
  return writer.Finish();
}

// Returns a maker of mutations of these models.
auto MutationsOf(std::vector<onnx::ModelProto> models) {
  return [models = std::move(models)](uint64_t seed,
                                      const GraphWriter::Observer& observer) {
    Dice dice(seed, 6);
    return MutateGraph(dice.OneOf(models), seed, observer);
  };
}

// Fails for each finding, and if too little was compared to find anything.
void ExpectNothingFound(const CampaignOptions& options,
                        uint64_t percent_alike) {
  const CampaignReport report = RunCampaign(options);
  std::printf("%s: %s\n", options.name.c_str(), report.ToString().c_str());
  for (const std::string& finding : report.findings) ADD_FAILURE() << finding;
  if (report.cases < 100) return;
  EXPECT_GE(100 * report.alike, percent_alike * report.cases)
      << "too few graphs can be run";
  EXPECT_GT(report.compared, report.skipped) << "too few elements are compared";
}

TEST(RandomGraphsTest, BothBackEndsComputeTheSame) {
  ExpectNothingFound({.name = "random", .cases = 500, .make = RandomGraph}, 50);
}

TEST(RandomGraphsTest, BothBackEndsComputeTheSameForMutatedOfficialCases) {
  std::vector<onnx::ModelProto> models = OfficialModels();
  if (models.empty()) {
    GTEST_SKIP() << "the package libonnx-testdata is not installed";
  }
  ExpectNothingFound({.name = "official",
                      .cases = 500,
                      .make = MutationsOf(std::move(models))},
                     20);
}

TEST(RandomGraphsTest, BothBackEndsComputeTheSameForMutatedChainsOfLayers) {
  ExpectNothingFound(
      {.name = "layers", .cases = 100, .make = MutationsOf(LayerModels(20))},
      20);
}

}  // namespace
}  // namespace gpupool::engine::fuzz
