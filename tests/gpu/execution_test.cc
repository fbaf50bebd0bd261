// Programs on the GPU from run to run: recordings, training beside the CPU,
// options of kernels, profiles.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/import/model_programs.h"
#include "engine/memory/host_page_source.h"
#include "engine/passes/pipeline.h"
#include "gpupool/v1/job.pb.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/loaded_on.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kBatch = 12;

Graph Training() {
  v1::TrainingSpec training =
      TrainingFromText("cross_entropy {} adam { learning_rate: 0.01 }");
  training.set_batch_size(kBatch);
  Graph graph = BuildTrainingGraph(DigitsModel(), {}, training)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

Graph Inference() {
  Graph graph = BuildInferenceGraph(DigitsModel(), false, kBatch)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

class ExecutionOnGpu : public GpuTest {
 protected:
  LoadedOn Load(const Graph& graph, const KernelOptions& options = {}) {
    return LoadedOn(&gpu().backend(), &gpu().allocator(), graph, options);
  }
};

// The first run is queued plainly, the second captured, later ones replayed.
TEST_F(ExecutionOnGpu, ReplaysGiveTheBitsOfThePlainRun) {
  LoadedOn loaded = Load(Inference());
  loaded.SetInputs(1);
  ASSERT_TRUE(loaded.executor().Run().ok());
  const std::string plain = loaded.Outputs();
  for (int run = 0; run < 4; ++run) {
    loaded.SetInputs(1);
    ASSERT_TRUE(loaded.executor().Run().ok());
    EXPECT_EQ(loaded.Outputs(), plain) << "run " << run;
  }
}

TEST_F(ExecutionOnGpu, ReplaysSeeNewInputs) {
  LoadedOn replayed = Load(Inference());
  for (int64_t step = 1; step < 6; ++step) {
    replayed.SetInputs(step);
    ASSERT_TRUE(replayed.executor().Run().ok());
    LoadedOn plain = Load(Inference());
    plain.SetInputs(step);
    ASSERT_TRUE(plain.executor().Run().ok());
    EXPECT_EQ(replayed.Outputs(), plain.Outputs()) << "step " << step;
  }
}

// Losses of a run on each device, step by step.
std::vector<float> Curve(LoadedOn& loaded, int steps) {
  std::vector<float> losses;
  for (int step = 1; step <= steps; ++step) {
    loaded.SetInputs(step);
    const absl::Status run = loaded.executor().Run();
    EXPECT_TRUE(run.ok()) << run;
    losses.push_back(loaded.Output("loss"));
  }
  return losses;
}

TEST_F(ExecutionOnGpu, TrainingFollowsTheCurveOfTheCpu) {
  const Graph graph = Training();
  CpuBackend cpu(1);
  HostPageSource pages;
  CachingAllocator host("cpu:0", uint64_t{1} << 30, &pages);
  LoadedOn on_cpu(&cpu, &host, graph);
  LoadedOn on_gpu = Load(graph);
  const std::vector<float> wanted = Curve(on_cpu, 40);
  const std::vector<float> got = Curve(on_gpu, 40);
  for (size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(got[step], wanted[step], 1e-3 + 0.02 * std::abs(wanted[step]))
        << "step " << step + 1;
  }
  EXPECT_LT(got.back(), got.front());
}

TEST_F(ExecutionOnGpu, DeterministicTrainingRepeatsItsBits) {
  const KernelOptions options{.deterministic = true};
  LoadedOn first = Load(Training(), options);
  LoadedOn second = Load(Training(), options);
  EXPECT_EQ(Curve(first, 10), Curve(second, 10));
}

TEST_F(ExecutionOnGpu, MeasuredKernelsComputeTheSame) {
  LoadedOn plain = Load(Training());
  LoadedOn measured = Load(Training(), {.benchmark = true});
  const std::vector<float> wanted = Curve(plain, 10);
  const std::vector<float> got = Curve(measured, 10);
  for (size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(got[step], wanted[step], 1e-2) << "step " << step + 1;
  }
}

TEST_F(ExecutionOnGpu, TensorFloat32StaysNearFloat32) {
  LoadedOn exact = Load(Training());
  LoadedOn rounded = Load(Training(), {.tensor_float32 = true});
  const std::vector<float> wanted = Curve(exact, 10);
  const std::vector<float> got = Curve(rounded, 10);
  for (size_t step = 0; step < wanted.size(); ++step) {
    EXPECT_NEAR(got[step], wanted[step], 5e-2) << "step " << step + 1;
  }
}

TEST_F(ExecutionOnGpu, AProfileHasATimeForEveryNode) {
  LoadedOn loaded = Load(Training());
  Profile profile;
  for (int64_t step = 1; step < 4; ++step) {
    loaded.SetInputs(step);
    const absl::Status run =
        loaded.executor().RunProfiled(&profile, gpu().device().timer());
    ASSERT_TRUE(run.ok()) << run;
  }
  EXPECT_EQ(profile.runs(), 3);
  const auto totals = profile.Totals();
  // Every launch of a step but those that queue nothing.
  EXPECT_GT(totals.size() * 2,
            loaded.executor().program().graph().nodes().size());
  for (const NodeTotal& total : totals) EXPECT_GT(total.nanos, 0);
  std::cout << profile.Table(loaded.executor().program().graph());
}

}  // namespace
}  // namespace gpupool::engine::testing
