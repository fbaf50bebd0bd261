// Checks every pass on graphs of all op families.
#include "tests/engine/testing/random_graph.h"

#include "tests/engine/passes/pass_property.h"

namespace gpupool::engine {
namespace {

// Passes fold constants rounded to float32 and recognise functions with such
// constants.
constexpr double kRandomTolerance = 1e-5;

class RandomGraphTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphTest, InferenceKeepsItsResults) {
  const auto seed = static_cast<uint64_t>(GetParam());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  testing::ExpectPassesKeepResults(testing::RandomGraph(seed, false), seed,
                                   kRandomTolerance);
}

TEST_P(RandomGraphTest, TrainingKeepsItsResults) {
  const auto seed = static_cast<uint64_t>(GetParam());
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  testing::ExpectPassesKeepResults(testing::RandomGraph(seed, true), seed,
                                   kRandomTolerance);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphTest, ::testing::Range(0, 120));

}  // namespace
}  // namespace gpupool::engine
