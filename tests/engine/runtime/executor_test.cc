#include "engine/runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/align.h"
#include "engine/memory/host_page_source.h"
#include "tests/engine/runtime/allocation_counter.h"
#include "tests/engine/runtime/model_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> BytesOf(const WeightStore& weights) {
  std::vector<std::byte> bytes;
  const WeightView view = *WeightView::Read(weights);
  for (const WeightEntry& entry : view.layout().entries()) {
    const auto part = view.bytes_of(entry);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

TEST(ExecutorTest, StepsLowerTheLoss) {
  LoadedProgram run(TrainingGraph(testing::DigitsModel(), 32));
  ASSERT_TRUE(run.executor().Load().ok());
  float first = 0, last = 0;
  for (int step = 1; step <= 60; ++step) {
    run.SetInputs(step);
    ASSERT_TRUE(run.executor().Run().ok());
    last = run.Output("loss");
    if (step == 1) first = last;
  }
  EXPECT_TRUE(std::isfinite(last));
  EXPECT_LT(last, 0.9f * first);
}

TEST(ExecutorTest, MeasuredBytesEqualThePlanToTheByte) {
  for (const int batch : {1, 3, 32, 64}) {
    for (const int threads : {1, 2}) {
      LoadedProgram train(TrainingGraph(testing::DigitsModel(), batch + 1),
                          threads);
      EXPECT_EQ(train.planned().peak,
                train.allocator().Statistics().peak_allocated_bytes);
      LoadedProgram infer(InferenceGraph(testing::DigitsModel(), batch),
                          threads);
      EXPECT_EQ(infer.planned().peak,
                infer.allocator().Statistics().peak_allocated_bytes);
      EXPECT_EQ(infer.planned().optimizer, 0u);
      EXPECT_GT(train.planned().optimizer, train.planned().weights);
    }
  }
}

TEST(ExecutorTest, ARunAllocatesNothing) {
  LoadedProgram run(TrainingGraph(testing::DigitsModel(), 32), 2);
  ASSERT_TRUE(run.executor().Load().ok());
  run.SetInputs(1);
  ASSERT_TRUE(run.executor().Run().ok());
  run.SetInputs(2);
  const AllocationCounter counter;
  const absl::Status status = run.executor().Run();
  const uint64_t allocations = counter.ours();
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(allocations, 0u);
}

TEST(ExecutorTest, RunsAreBitIdentical) {
  std::vector<std::byte> weights[2];
  for (auto& bytes : weights) {
    LoadedProgram run(TrainingGraph(testing::DigitsModel(), 32), 2);
    ASSERT_TRUE(run.executor().Load().ok());
    for (int step = 1; step <= 10; ++step) {
      run.SetInputs(step);
      ASSERT_TRUE(run.executor().Run().ok());
    }
    bytes = BytesOf(run.weights());
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(ExecutorTest, LoadTakesNewWeightsIntoPackedOnes) {
  LoadedProgram run(InferenceGraph(testing::DigitsModel(), 4));
  ASSERT_TRUE(run.executor().Load().ok());
  run.SetInputs(0);
  ASSERT_TRUE(run.executor().Run().ok());
  const float before = run.Output("output");
  const WeightView weights = *WeightView::Read(run.weights());
  for (const WeightEntry& entry : weights.layout().entries()) {
    float* data = reinterpret_cast<float*>(weights.bytes_of(entry).data());
    for (int64_t i = 0; i < entry.shape.elements(); ++i) data[i] *= 1.5f;
  }
  ASSERT_TRUE(weights.Commit().ok());
  ASSERT_TRUE(run.executor().Load().ok());
  run.SetInputs(0);
  ASSERT_TRUE(run.executor().Run().ok());
  EXPECT_NE(run.Output("output"), before);
}

// One weight set and one arena, with a program for each of several batch sizes.
TEST(ExecutorTest, BatchesOfOneModelSharePackedWeightsAsPlanned) {
  CpuBackend backend(1);
  HostPageSource source;
  CachingAllocator allocator("cpu:0", uint64_t{1} << 32, &source);
  std::vector<Program> programs;
  std::vector<ProgramBytes> bytes;
  for (const int batch : {1, 2, 4, 8}) {
    programs.push_back(*Program::Compile(
        InferenceGraph(testing::DigitsModel(), batch), &backend));
    bytes.push_back(programs.back().bytes());
  }
  const WeightLayout layout =
      *WeightLayout::Create({&programs[0].graph(), &programs[3].graph()});
  const PlannedBytes planned = ReportBytes(layout.bytes(), bytes);
  auto weights = WeightStore::Create(layout, "model", &allocator);
  ASSERT_TRUE(weights.ok());
  auto arena = allocator.Allocate(SharedArenaBytes(bytes), {"model", "arena"});
  ASSERT_TRUE(arena.ok());
  uint64_t alone = 0;
  std::vector<std::unique_ptr<Executor>> executors;
  for (Program& program : programs) {
    alone += ResidentBytes({program.bytes()});
    auto executor = Executor::Create(std::move(program),
                                     {.weights = *weights,
                                      .arena = {arena->data(), arena->bytes()},
                                      .holder = "model",
                                      .allocator = &allocator});
    ASSERT_TRUE(executor.ok()) << executor.status();
    executors.push_back(*std::move(executor));
  }
  EXPECT_EQ(allocator.Statistics().peak_allocated_bytes, planned.peak);
  EXPECT_LT(ResidentBytes(bytes), alone);
  executors.clear();
  EXPECT_EQ(allocator.Statistics().allocated_bytes,
            layout.bytes().model + AlignUp(arena->bytes()));
}

TEST(ExecutorTest, UnknownNamesGiveNothing) {
  LoadedProgram run(InferenceGraph(testing::DigitsModel(), 4));
  EXPECT_TRUE(run.executor().input("nothing").empty());
  EXPECT_TRUE(run.executor().output("nothing").empty());
  EXPECT_EQ(run.executor().input("input").size(), 4u * 64 * 4);
}

TEST(ExecutorTest, ALabelWithoutAClassIsAnErrorThatNamesIt) {
  LoadedProgram run(TrainingGraph(testing::DigitsModel(), 8));
  ASSERT_TRUE(run.executor().Load().ok());
  run.SetInputs(1);
  auto labels = run.executor().input("labels");
  reinterpret_cast<int64_t*>(labels.data())[5] = 3;
  const absl::Status status = run.executor().Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("row 5 of the batch has the label 3"));
}

TEST(ExecutorTest, RefusesAStoreThatLacksAWeight) {
  const Graph graph = InferenceGraph(testing::DigitsModel(), 4);
  CpuBackend backend(1);
  HostPageSource source;
  CachingAllocator allocator("cpu:0", 1 << 24, &source);
  auto weights = WeightStore::Create(WeightLayout(), "job 1", &allocator);
  ASSERT_TRUE(weights.ok());
  auto program = Program::Compile(graph, &backend);
  ASSERT_TRUE(program.ok());
  auto arena = allocator.Allocate(program->bytes().arena, {"job 1", "arena"});
  ASSERT_TRUE(arena.ok());
  const auto executor = Executor::Create(
      *std::move(program), {.weights = *weights,
                            .arena = {arena->data(), arena->bytes()},
                            .holder = "job 1",
                            .allocator = &allocator});
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(executor.status().message()),
              HasSubstr("the weight store has no \""));
}

// Gives mark n the time of n microseconds.
class CountingTimer : public LaunchTimer {
 public:
  absl::Status Start() override {
    nodes_.clear();
    return absl::OkStatus();
  }
  absl::Status Mark(int node) override {
    nodes_.push_back(node);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<NodeTime>> Stop() override {
    std::vector<NodeTime> times;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] < 0) continue;
      times.push_back({nodes_[i], 0, static_cast<int64_t>(i + 1) * 1000, 0});
    }
    return times;
  }
  const std::vector<int>& nodes() const { return nodes_; }

 private:
  std::vector<int> nodes_;
};

TEST(ExecutorTest, ATimerOfTheDeviceGivesTheTimes) {
  LoadedProgram run(TrainingGraph(testing::DigitsModel(), 8));
  ASSERT_TRUE(run.executor().Load().ok());
  Profile profile;
  CountingTimer timer;
  run.SetInputs(1);
  ASSERT_TRUE(run.executor().RunProfiled(&profile, &timer).ok());
  EXPECT_EQ(profile.runs(), 1);
  EXPECT_EQ(timer.nodes().back(), -1);
  EXPECT_EQ(profile.Totals().size(), timer.nodes().size() - 1);
  EXPECT_EQ(profile.Totals()[0].nanos,
            static_cast<int64_t>(timer.nodes().size() - 1) * 1000);
  ASSERT_FALSE(profile.times().empty());
  EXPECT_EQ(profile.times()[0].held_bytes, run.planned().peak);
}

TEST(ExecutorTest, ProfiledRunsTimeEveryNodeThatRuns) {
  LoadedProgram run(TrainingGraph(testing::DigitsModel(), 8));
  ASSERT_TRUE(run.executor().Load().ok());
  Profile profile;
  run.SetInputs(1);
  ASSERT_TRUE(run.executor().RunProfiled(&profile).ok());
  EXPECT_EQ(profile.runs(), 1);
  EXPECT_GT(profile.Totals().size(), 10u);
  for (const NodeTime& time : profile.times()) {
    EXPECT_EQ(time.held_bytes, run.planned().peak);
    EXPECT_LE(time.held_bytes, run.allocator().Statistics().reserved_bytes);
  }
  EXPECT_THAT(profile.Table(run.executor().program().graph()),
              HasSubstr("adam_step"));
}

}  // namespace
}  // namespace gpupool::engine
