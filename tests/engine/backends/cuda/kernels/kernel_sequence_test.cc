#include "engine/backends/cuda/kernels/kernel_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/backends/function_kernel.h"

namespace gpupool::engine::cuda {
namespace {

using ::testing::ElementsAre;

// Returns a kernel for y = x + 1, both of two numbers, that fills `workspace`
// bytes.
std::unique_ptr<Kernel> AddOne(uint64_t workspace) {
  return MakeKernel(
      [workspace](const KernelArguments& at) {
        for (int i = 0; i < 2; ++i) at.out(0)[i] = at.in(0)[i] + 1;
        for (uint64_t i = 0; i < workspace; ++i) {
          at.workspace<uint8_t>()[i] = 0xee;
        }
      },
      workspace);
}

TEST(KernelSequenceTest, StepsMeetInScratchMemory) {
  std::vector<KernelSequence::Step> steps;
  steps.push_back({AddOne(24),
                   {OperandPlace::Input(0, 2 * sizeof(float))},
                   {OperandPlace::Scratch(0)}});
  steps.push_back({AddOne(100),
                   {OperandPlace::Scratch(0)},
                   {OperandPlace::Output(0, sizeof(float))}});
  KernelSequence sequence(std::move(steps), 2 * sizeof(float));
  // Scratch memory begins at a multiple of 256, and so does the memory of each
  // step.
  ASSERT_EQ(sequence.workspace_bytes(), 256 + 100 + 256);
  std::vector<float> x = {1, 2, 3, 4}, y(4, -1);
  std::vector<std::byte> workspace(sequence.workspace_bytes() + 1);
  workspace.back() = std::byte{7};
  ASSERT_TRUE(sequence
                  .Bind({{reinterpret_cast<std::byte*>(x.data())},
                         {reinterpret_cast<std::byte*>(y.data())},
                         workspace.data()})
                  .ok());
  ASSERT_TRUE(sequence.Prepare().ok());
  ASSERT_TRUE(sequence.Run().ok());
  EXPECT_THAT(y, ElementsAre(-1, 5, 6, -1));
  EXPECT_EQ(workspace.back(), std::byte{7});
}

TEST(KernelSequenceTest, WithoutAnyWorkspaceItNeedsNone) {
  std::vector<KernelSequence::Step> steps;
  steps.push_back(
      {AddOne(0), {OperandPlace::Input(0)}, {OperandPlace::Output(0)}});
  EXPECT_EQ(KernelSequence(std::move(steps), 0).workspace_bytes(), 0u);
}

TEST(KernelSequenceTest, AStepThatFailsEndsTheRun) {
  bool reached = false;
  std::vector<KernelSequence::Step> steps;
  steps.push_back({MakeKernel([](const KernelArguments&) -> absl::Status {
                     return absl::InternalError("no");
                   }),
                   {},
                   {}});
  steps.push_back(
      {MakeKernel([&reached](const KernelArguments&) { reached = true; }),
       {},
       {}});
  KernelSequence sequence(std::move(steps), 0);
  EXPECT_EQ(sequence.Run().message(), "no");
  EXPECT_FALSE(reached);
}

}  // namespace
}  // namespace gpupool::engine::cuda
