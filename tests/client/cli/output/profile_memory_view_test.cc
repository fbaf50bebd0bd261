#include "client/cli/output/profile_memory_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

ProgramMemory StepOf(size_t nodes) {
  ProgramMemory memory;
  memory.program = "step";
  for (size_t i = 0; i < nodes; ++i) {
    memory.nodes.push_back({"block.fc", "matmul", kMebibyte, 4 * kMebibyte});
  }
  memory.peak = nodes / 2;
  memory.nodes[memory.peak].planned = 3 * kMebibyte;
  memory.arena_bytes = 2 * kMebibyte;
  memory.outside_bytes = 2 * kMebibyte;
  memory.values = {{"v7", "block.fc", "matmul", "activation", kMebibyte},
                   {"", "block<0>", "conv2d", "workspace", kMebibyte / 2},
                   {"learning_rate", "", "", "input", 64}};
  return memory;
}

TEST(ProfileMemoryViewTest, PrintsThePeakAndWhatLivesThere) {
  std::ostringstream out;
  PrintProfileMemory({.stream = &out}, {StepOf(10)}, true);
  EXPECT_EQ(out.str(),
            "\nmemory of 'step': the plan needs 4.0 MiB, of which 2.0 MiB is "
            "the arena; at most 3.0 MiB live, at op 6 of 10, matmul of "
            "block.fc; the allocator gave at most 4.0 MiB\n"
            "BYTES\tKIND\tOP\tLAYER OR NAME\n"
            "1.0 MiB\tactivation\tmatmul\tblock.fc\n"
            "512 KiB\tworkspace\tconv2d\tblock<0>\n"
            "64 B\tinput\t-\tlearning_rate\n");
}

TEST(ProfileMemoryViewTest, ThePictureHasBothCurvesAndThePeak) {
  const std::string svg = ProfileMemoryPicture({StepOf(10)});
  for (const char* text :
       {">Memory of a step<", ">planned: live at the op<",
        ">measured: allocated<", ">needed by the plan<", ">MiB<",
        ">ops in the order in which they run<", ">peak 3.0 MiB at op 6<",
        ">At the peak of a step (op 6 of 10, matmul of block.fc) live:<",
        ">1.0 MiB  activation of matmul in block.fc (v7)<",
        ">512 KiB  workspace of conv2d in block&lt;0>",
        ">2.0 MiB  weights and all else beside the arena<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr("<path class=\"l0\" d=\"M"));
  EXPECT_THAT(svg, HasSubstr("<path class=\"l1\" d=\"M"));
}

TEST(ProfileMemoryViewTest, ALongProgramKeepsItsPeakInABoundedPicture) {
  ProgramMemory memory = StepOf(200'000);
  const std::string svg = ProfileMemoryPicture({memory});
  EXPECT_LT(svg.size(), 100'000u);
  EXPECT_THAT(svg, HasSubstr(">peak 3.0 MiB at op 100001<"));
  // Without the peak the curve of the plan would have another highest point.
  memory.nodes[memory.peak].planned = kMebibyte;
  EXPECT_THAT(svg, Not(testing::StrEq(ProfileMemoryPicture({memory}))));
}

}  // namespace
}  // namespace gpupool::client
