// Compares blocks of convolutional networks, channels-last, on the CPU back end
// with the reference back end.
#include "tests/engine/testing/image_blocks.h"

#include <gtest/gtest.h>

#include "engine/graph/print.h"
#include "engine/passes/pipeline.h"
#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using testing::ImageBlock;

class ImageBlocksTest : public ::testing::TestWithParam<ImageBlock> {};

TEST_P(ImageBlocksTest, GiveTheNumbersOfTheReference) {
  const Graph graph = GetParam().build();
  Graph optimised = graph;
  const absl::Status passes = RunPasses(optimised, {}, nullptr);
  ASSERT_TRUE(passes.ok()) << passes;
  SCOPED_TRACE(Print(optimised));
  const auto inputs = testing::RandomInputs(graph, 3);
  auto wanted_state = testing::RandomPersistents(graph, 5);
  auto got_state = wanted_state;
  const auto wanted = reference::Run(graph, inputs, wanted_state);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const auto got = RunOnCpu(optimised, inputs, got_state, 2);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_LE(testing::Distance(got->at("y"), wanted->at("y")), 3e-5);
}

INSTANTIATE_TEST_SUITE_P(Blocks, ImageBlocksTest,
                         ::testing::ValuesIn(testing::ImageBlocks()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gpupool::engine
