// Programs on the GPU over several runs: recordings, training compared with the
// CPU, options of kernels, profiles.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/check.h"
#include "engine/memory/host_page_source.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/model_program.h"
#include "tests/gpu/gpu.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kBatch = 12;
constexpr int64_t kClasses = 3;

class ExecutionOnGpu : public GpuTest {
 protected:
  ProgramDevice Device(const KernelOptions& kernels = {}) {
    return {&gpu().backend(), &gpu().allocator(), kernels};
  }
  std::unique_ptr<ModelProgram> Training(const ProgramDevice& device) {
    v1::TrainingSpec training =
        TrainingFromText("cross_entropy {} adam { learning_rate: 0.01 }");
    training.set_batch_size(kBatch);
    return Loaded(ModelProgram::ForTraining(Digits(), training, device));
  }
  std::unique_ptr<ModelProgram> Inference() {
    return Loaded(ModelProgram::ForInference(Digits(), kBatch, Device()));
  }

 private:
  static std::shared_ptr<const ModelSource> Digits() {
    return *ModelSource::Open(DigitsModel(), "");
  }
  static std::unique_ptr<ModelProgram> Loaded(
      absl::StatusOr<std::unique_ptr<ModelProgram>> program) {
    GPUPOOL_CHECK(program.ok());
    const absl::Status loaded = (*program)->Load();
    EXPECT_TRUE(loaded.ok()) << loaded;
    return *std::move(program);
  }
};

absl::Status RunStep(ModelProgram& program, int64_t step) {
  program.FillInputs(step, kClasses);
  return program.Run();
}

// The first run is queued plainly, the second captured, later ones replayed.
TEST_F(ExecutionOnGpu, ReplaysGiveTheBitsOfThePlainRun) {
  const auto program = Inference();
  ASSERT_TRUE(RunStep(*program, 1).ok());
  const std::string plain = program->Outputs();
  for (int run = 0; run < 4; ++run) {
    ASSERT_TRUE(RunStep(*program, 1).ok());
    EXPECT_EQ(program->Outputs(), plain) << "run " << run;
  }
}

TEST_F(ExecutionOnGpu, ReplaysSeeNewInputs) {
  const auto replayed = Inference();
  for (int64_t step = 1; step < 6; ++step) {
    ASSERT_TRUE(RunStep(*replayed, step).ok());
    const auto plain = Inference();
    ASSERT_TRUE(RunStep(*plain, step).ok());
    EXPECT_EQ(replayed->Outputs(), plain->Outputs()) << "step " << step;
  }
}

// Recorded or not, a step consists of launches and copies. Its memory was
// allocated before.
TEST_F(ExecutionOnGpu, AStepMakesNoAllocatorCalls) {
  const auto program = Training(Device());
  const MemoryStatistics before = gpu().allocator().Statistics();
  for (int64_t step = 1; step <= 10; ++step) {
    ASSERT_TRUE(RunStep(*program, step).ok());
  }
  const MemoryStatistics after = gpu().allocator().Statistics();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.frees, before.frees);
  EXPECT_EQ(after.segment_allocations, before.segment_allocations);
  EXPECT_EQ(after.reserved_bytes, before.reserved_bytes);
}

// Returns the losses of a run on each device, step by step.
std::vector<float> Curve(ModelProgram& program, int steps) {
  std::vector<float> losses;
  for (int step = 1; step <= steps; ++step) {
    const absl::Status run = RunStep(program, step);
    EXPECT_TRUE(run.ok()) << run;
    losses.push_back(program.Output("loss")[0]);
  }
  return losses;
}

TEST_F(ExecutionOnGpu, TrainingFollowsTheCurveOfTheCpu) {
  CpuBackend cpu(1);
  HostPageSource pages;
  CachingAllocator host("cpu:0", uint64_t{1} << 30, &pages);
  const auto on_cpu = Training({&cpu, &host});
  const std::vector<float> wanted = Curve(*on_cpu, 40);
  const std::vector<float> got = Curve(*Training(Device()), 40);
  for (size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(got[step], wanted[step], 1e-3 + 0.02 * std::abs(wanted[step]))
        << "step " << step + 1;
  }
  EXPECT_LT(got.back(), got.front());
}

TEST_F(ExecutionOnGpu, DeterministicTrainingRepeatsItsBits) {
  const ProgramDevice device = Device({.deterministic = true});
  EXPECT_EQ(Curve(*Training(device), 10), Curve(*Training(device), 10));
}

TEST_F(ExecutionOnGpu, MeasuredKernelsComputeTheSame) {
  const std::vector<float> wanted = Curve(*Training(Device()), 10);
  const std::vector<float> got =
      Curve(*Training(Device({.benchmark = true})), 10);
  for (size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(got[step], wanted[step], 1e-2) << "step " << step + 1;
  }
}

TEST_F(ExecutionOnGpu, TensorFloat32StaysNearFloat32) {
  const std::vector<float> wanted = Curve(*Training(Device()), 10);
  const std::vector<float> got =
      Curve(*Training(Device({.tensor_float32 = true})), 10);
  for (size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(got[step], wanted[step], 5e-2) << "step " << step + 1;
  }
}

TEST_F(ExecutionOnGpu, AProfileHasATimeForEveryNode) {
  const auto program = Training(Device());
  Profile profile;
  for (int64_t step = 1; step < 4; ++step) {
    program->FillInputs(step, kClasses);
    const absl::Status run =
        program->executor().RunProfiled(&profile, gpu().device().timer());
    ASSERT_TRUE(run.ok()) << run;
  }
  EXPECT_EQ(profile.runs(), 3);
  const auto totals = profile.Totals();
  // Every launch of a step except those that queue nothing.
  EXPECT_GT(totals.size() * 2, program->program().graph().nodes().size());
  for (const NodeTotal& total : totals) EXPECT_GT(total.nanos, 0);
  std::cout << profile.Table(program->program().graph());
}

}  // namespace
}  // namespace gpupool::engine::testing
