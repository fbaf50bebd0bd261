#include "engine/train/input/batch_landing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"
#include "tests/engine/standin/queued_backend.h"

namespace gpupool::engine {
namespace {

using standin::WorkQueue;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr int64_t kNumbers = 100;

// Returns out = x + y. No node reads z.
Graph Model() {
  Graph graph;
  GraphBuilder builder(&graph);
  builder.SetSource("sum", 0);
  const TensorType type = {DType::kFloat32, {kNumbers}};
  const ValueId x = *builder.Input("x", type), y = *builder.Input("y", type);
  EXPECT_TRUE(builder.Input("z", {DType::kFloat32, {7}}).ok());
  graph.AddOutput("out", *builder.EmitOne(Op::kAdd, {x, y}));
  return graph;
}

absl::Span<float> Floats(absl::Span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// x and z go through the landing. y comes with the run.
class BatchLandingTest : public ::testing::TestWithParam<WorkQueue::Pace> {
 protected:
  void SetUp() override {
    const Graph graph = Model();
    auto program = Program::Compile(graph, &backend_);
    ASSERT_TRUE(program.ok()) << program.status();
    auto layout = WeightLayout::Create({&graph});
    weights_ = std::make_unique<WeightStore>(
        *WeightStore::Create(*layout, "job 1", &allocator_, transfer()));
    arena_ = *allocator_.Allocate(program->bytes().arena, {"job 1", "arena"});
    layout_.Add("x", kNumbers * sizeof(float));
    layout_.Add("z", 7 * sizeof(float));
    auto executor = Executor::Create(*std::move(program),
                                     {.weights = *weights_,
                                      .arena = {arena_.data(), arena_.bytes()},
                                      .holder = "job 1",
                                      .allocator = &allocator_},
                                     layout_.names());
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
    ASSERT_TRUE(executor_->Load().ok());
  }

  Transfer& transfer() { return backend_.transfer(); }
  void MakeLanding() {
    auto landing =
        BatchLanding::Create(layout_, "job 1", &allocator_, &transfer());
    ASSERT_TRUE(landing.ok()) << landing.status();
    landing_ = *std::move(landing);
  }
  // Sends a batch. All numbers of x are the batch's number.
  void Send(uint64_t batch) {
    const auto x = Floats(landing_->input("x"));
    std::fill(x.begin(), x.end(), static_cast<float>(batch));
    const absl::Status sent = landing_->Send(batch);
    ASSERT_TRUE(sent.ok()) << sent;
  }
  absl::Status StartWith(float y) {
    const auto bytes = Floats(executor_->input("y"));
    std::fill(bytes.begin(), bytes.end(), y);
    RETURN_IF_ERROR(landing_->Take(*executor_));
    return executor_->Start();
  }
  std::vector<float> Out() const {
    const auto bytes = executor_->output("out");
    const auto* numbers = reinterpret_cast<const float*>(bytes.data());
    return {numbers, numbers + kNumbers};
  }

  standin::ProtectedPages pages_;
  standin::HostSide host_;
  standin::QueuedBackend backend_{
      std::make_unique<CpuBackend>(1), &pages_, &host_, {.copies = GetParam()}};
  CachingAllocator allocator_{"cuda:0", uint64_t{1} << 30, &pages_};
  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  LandingLayout layout_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<BatchLanding> landing_;
};

TEST_P(BatchLandingTest, EachRunSeesItsOwnBatchThoughTheNextIsOnItsWay) {
  MakeLanding();
  Send(1);
  for (uint64_t batch = 1; batch < 8; ++batch) {
    EXPECT_TRUE(landing_->Holds(batch));
    ASSERT_TRUE(StartWith(0.5F).ok());
    EXPECT_FALSE(landing_->Holds(batch));
    Send(batch + 1);
    const absl::Status finished = executor_->Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    EXPECT_THAT(Out(), Each(static_cast<float>(batch) + 0.5F));
  }
}

TEST_P(BatchLandingTest, TheNextMayAlsoBeSentWhenTheRunIsOver) {
  MakeLanding();
  for (uint64_t batch = 1; batch < 5; ++batch) {
    Send(batch);
    ASSERT_TRUE(StartWith(2).ok());
    ASSERT_TRUE(executor_->Finish().ok());
    EXPECT_THAT(Out(), Each(static_cast<float>(batch) + 2));
  }
}

TEST_P(BatchLandingTest, TakesTheBytesOfItsLayout) {
  EXPECT_EQ(layout_.bytes, 448u + 64);
  EXPECT_THAT(layout_.names(), ElementsAre("x", "z"));
  const uint64_t before = allocator_.HolderBytes("job 1");
  MakeLanding();
  EXPECT_EQ(allocator_.HolderBytes("job 1") - before, layout_.bytes);
  EXPECT_EQ(landing_->input("x").size(), kNumbers * sizeof(float));
  EXPECT_EQ(landing_->input("z").size(), 7 * sizeof(float));
  EXPECT_TRUE(landing_->input("y").empty());
  EXPECT_TRUE(executor_->input("x").empty()) << "not the executor's to stage";
  landing_.reset();
  EXPECT_EQ(allocator_.HolderBytes("job 1"), before);
}

TEST_P(BatchLandingTest, WhatNobodyTookIsOverBeforeItsMemoryGoes) {
  MakeLanding();
  Send(1);
  landing_.reset();
  // The stand-in ends the process if a copy reads freed staging.
  EXPECT_TRUE(transfer().beside()->Synchronize().ok());
  MakeLanding();
  Send(1);
  ASSERT_TRUE(StartWith(1).ok());
  ASSERT_TRUE(executor_->Finish().ok());
  EXPECT_THAT(Out(), Each(2));
}

TEST_P(BatchLandingTest, WithoutRoomThereIsNone) {
  ASSERT_TRUE(
      allocator_.SetHolderLimit("job 1", allocator_.HolderBytes("job 1") + 64)
          .ok());
  EXPECT_TRUE(absl::IsResourceExhausted(
      BatchLanding::Create(layout_, "job 1", &allocator_, &transfer())
          .status()));
}

INSTANTIATE_TEST_SUITE_P(Paces, BatchLandingTest,
                         ::testing::Values(WorkQueue::Pace::kLate,
                                           WorkQueue::Pace::kEager));

}  // namespace
}  // namespace gpupool::engine
