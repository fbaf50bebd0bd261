#include "engine/runtime/arena_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/align.h"
#include "engine/plan/liveness.h"
#include "tests/engine/runtime/model_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Program TrainingProgram(CpuBackend* backend, int batch) {
  return *Program::Compile(TrainingGraph(testing::DigitsModel(), batch),
                           backend);
}

TEST(ArenaUseTest, ThePeakOfAStepIsThatOfThePlan) {
  CpuBackend backend(1);
  for (const int batch : {1, 7, 64}) {
    const Program program = TrainingProgram(&backend, batch);
    const ArenaUse use = ArenaUseOf(program);
    EXPECT_EQ(use.peak_bytes(), program.bytes().arena_lower_bound) << batch;
    EXPECT_LE(use.peak_bytes(), program.bytes().arena);
    EXPECT_EQ(*std::max_element(use.live_bytes.begin(), use.live_bytes.end()),
              use.peak_bytes());
  }
}

TEST(ArenaUseTest, EachNodeHasTheBuffersThatLiveAndItsScratch) {
  CpuBackend backend(2);
  const Program program = TrainingProgram(&backend, 16);
  const ArenaUse use = ArenaUseOf(program);
  ASSERT_THAT(use.live_bytes, SizeIs(program.graph().nodes().size()));
  for (size_t i = 0; i < use.live_bytes.size(); ++i) {
    const int node = static_cast<int>(i);
    uint64_t bytes = 0;
    for (const Buffer& buffer : program.liveness().buffers) {
      const bool lives = buffer.place == Place::kArena &&
                         buffer.lifetime.Overlaps({node, node});
      if (lives) bytes += AlignUp(buffer.bytes);
    }
    for (const Launch& launch : program.launches()) {
      if (launch.node != node) continue;
      bytes += AlignUp(launch.kernel->workspace_bytes());
    }
    EXPECT_EQ(use.live_bytes[i], bytes) << "node " << i;
  }
}

TEST(ArenaUseTest, TheValuesAtThePeakAddUpToIt) {
  CpuBackend backend(1);
  const Program program = TrainingProgram(&backend, 64);
  const ArenaUse all = ArenaUseOf(program, 100000);
  uint64_t sum = 0, last = all.peak_bytes();
  for (const LiveValue& value : all.largest) {
    EXPECT_EQ(value.name.empty(), value.kind == "workspace");
    if (value.op.empty()) {
      EXPECT_EQ(value.kind, "input") << value.name;
    }
    EXPECT_LE(value.bytes, last) << "the largest comes first";
    last = value.bytes;
    sum += value.bytes;
  }
  EXPECT_EQ(sum, all.peak_bytes());
  const ArenaUse two = ArenaUseOf(program, 2);
  ASSERT_THAT(two.largest, SizeIs(2));
  EXPECT_EQ(two.largest[1].name, all.largest[1].name);
}

TEST(ArenaUseTest, AGraphWithoutNodesHasNoPeak) {
  CpuBackend backend(1);
  const Program program = *Program::Compile(Graph(), &backend);
  const ArenaUse use = ArenaUseOf(program);
  EXPECT_EQ(use.peak_node, -1);
  EXPECT_EQ(use.peak_bytes(), 0u);
  EXPECT_THAT(use.largest, IsEmpty());
}

}  // namespace
}  // namespace gpupool::engine
