#include "server/worker/rehearsal/training_rehearsal.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using testing_engine::FakeEngine;
using testing_engine::FakeTraining;

// A training that counts what it is asked to do.
class CountingTraining : public FakeTraining {
 public:
  CountingTraining(const worker::v1::StartJob& request, absl::Status answer,
                   std::vector<std::string>* asked)
      : FakeTraining(request, {}), answer_(std::move(answer)), asked_(asked) {}
  absl::Status FinishStep() override {
    asked_->push_back("step");
    return answer_;
  }
  absl::StatusOr<v1::Evaluation> Evaluate() override {
    asked_->push_back("evaluation");
    return FakeTraining::Evaluate();
  }

 private:
  const absl::Status answer_;
  std::vector<std::string>* const asked_;
};

// An engine whose steps have `flops` operations for each row.
class CountingEngine : public FakeEngine {
 public:
  CountingEngine() : FakeEngine({.limit_bytes = 1 << 20}) {}

  absl::StatusOr<worker::v1::PlanReply> PlanTraining(
      const worker::v1::PlanTraining& request) override {
    if (!plan_status.ok()) return plan_status;
    planned.push_back(request);
    worker::v1::PlanReply reply;
    reply.set_total_steps(70);
    reply.mutable_plan()->set_training_flops_per_step(
        flops * request.spec().training().batch_size());
    reply.mutable_plan()->mutable_training()->set_peak(bytes);
    return reply;
  }
  absl::StatusOr<std::unique_ptr<engine::Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<engine::AbortSwitch>) override {
    started.push_back(request);
    if (!start_status.ok()) return start_status;
    return std::make_unique<CountingTraining>(request, step_status, &asked);
  }

  uint64_t flops = 1000;
  uint64_t bytes = 4000;
  absl::Status plan_status, start_status, step_status;
  std::vector<worker::v1::PlanTraining> planned;
  std::vector<worker::v1::StartJob> started;
  std::vector<std::string> asked;
};

worker::v1::PlanTraining TrainingRequest() {
  worker::v1::PlanTraining request;
  request.set_make_step(true);
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("digits");
  spec.set_device("cuda");
  spec.mutable_training()->set_batch_size(32);
  spec.mutable_training()->set_accumulate_batches(3);
  spec.mutable_training()->set_epochs(10);
  spec.mutable_data()->mutable_held_out()->set_every(5);
  request.mutable_dataset()->set_rows(1 << 30);
  request.mutable_dataset()->add_feature_shape(4);
  request.mutable_dataset()->add_files()->set_sha256("ab");
  return request;
}

TEST(TrainingRehearsalTest, MakesAStepAndAnEvaluationOnRandomRows) {
  CountingEngine engine;
  ASSERT_TRUE(RehearseTraining(engine, TrainingRequest()).ok());
  EXPECT_THAT(engine.asked, ::testing::ElementsAre("step", "evaluation"));
  ASSERT_EQ(engine.started.size(), 1u);
  const worker::v1::StartJob& start = engine.started[0];
  EXPECT_EQ(start.limit_bytes(), 4000u);
  EXPECT_EQ(start.attempt(), kRehearsedAttempt);
  EXPECT_EQ(start.spec().device(), "");
  // The rows of a step, and some to evaluate.
  EXPECT_EQ(start.dataset().files_size(), 0);
  EXPECT_EQ(start.dataset().rows(), 96u + 8);
  EXPECT_EQ(start.spec().data().held_out().last(), 8u);
  // Keeps the job's length, since schedules depend on it.
  EXPECT_EQ(start.spec().training().steps(), 70u);
  EXPECT_EQ(engine.planned[0].dataset().rows(), 1u << 30);
}

TEST(TrainingRehearsalTest, WindowsGetRowsForAllOfThem) {
  CountingEngine engine;
  worker::v1::PlanTraining request = TrainingRequest();
  v1::DataSpec& data = *request.mutable_spec()->mutable_data();
  data.mutable_held_out()->set_last(5);
  data.mutable_window()->set_length(10);
  data.mutable_window()->set_stride(65536);
  ASSERT_TRUE(RehearseTraining(engine, request).ok());
  // Each begins a row after the one before, to make few rows. A window has 11
  // rows and shares some with the 10 windows before it.
  EXPECT_EQ(engine.started[0].spec().data().window().stride(), 1u);
  const uint64_t windows = 96 + 8 + 10;
  EXPECT_EQ(engine.started[0].dataset().rows(), 11 + (windows - 1));
}

TEST(TrainingRehearsalTest, AValidationSetGetsRandomRowsToo) {
  CountingEngine engine;
  worker::v1::PlanTraining request = TrainingRequest();
  v1::DataSpec& data = *request.mutable_spec()->mutable_data();
  data.clear_held_out();
  data.set_validation("val");
  request.mutable_validation()->set_rows(1 << 20);
  request.mutable_validation()->add_feature_shape(4);
  request.mutable_validation()->add_files()->set_sha256("cd");
  ASSERT_TRUE(RehearseTraining(engine, request).ok());
  const worker::v1::StartJob& start = engine.started[0];
  EXPECT_EQ(start.dataset().rows(), 96u);
  EXPECT_FALSE(start.spec().data().has_held_out());
  EXPECT_EQ(start.validation().files_size(), 0);
  EXPECT_EQ(start.validation().rows(), 8u);
  EXPECT_EQ(start.validation().feature_shape(0), 4);
  EXPECT_EQ(engine.planned[0].validation().rows(), 1u << 20);
  // No more than it has: the plan is for those.
  request.mutable_validation()->set_rows(3);
  ASSERT_TRUE(RehearseTraining(engine, request).ok());
  EXPECT_EQ(engine.started[1].validation().rows(), 3u);
}

TEST(TrainingRehearsalTest, AGroupIsTriedAsOneOfItsRanks) {
  CountingEngine engine;
  worker::v1::PlanTraining request = TrainingRequest();
  request.mutable_spec()->set_devices(4);
  request.mutable_spec()->mutable_data()->set_drop_last(false);
  request.mutable_spec()->mutable_data()->clear_held_out();
  ASSERT_TRUE(RehearseTraining(engine, request).ok());
  EXPECT_EQ(engine.started[0].spec().devices(), 0u);
  EXPECT_FALSE(engine.started[0].spec().data().has_drop_last());
  EXPECT_EQ(engine.started[0].spec().training().batch_size(), 8u);
  EXPECT_FALSE(engine.started[0].has_group());
  EXPECT_THAT(engine.asked, ::testing::ElementsAre("step"));
}

TEST(TrainingRehearsalTest, ALongStepGetsASmallerBatch) {
  CountingEngine engine;
  engine.flops = kMostStepFlops / 8;
  ASSERT_TRUE(RehearseTraining(engine, TrainingRequest()).ok());
  EXPECT_EQ(engine.started[0].spec().training().batch_size(), 8u);
}

TEST(TrainingRehearsalTest, WhatIsTooLargeIsOnlyCompiled) {
  CountingEngine engine;
  engine.flops = kMostStepFlops + 1;
  EXPECT_TRUE(RehearseTraining(engine, TrainingRequest()).ok());
  engine.flops = 1;
  engine.bytes = 2 << 20;  // more than the device has
  EXPECT_TRUE(RehearseTraining(engine, TrainingRequest()).ok());
  EXPECT_TRUE(engine.started.empty());
  EXPECT_FALSE(engine.planned.empty());
}

TEST(TrainingRehearsalTest, WhatLeavesItsPlanIsRefused) {
  CountingEngine engine;
  engine.step_status = absl::ResourceExhaustedError("4096 bytes are needed");
  const auto reply = RehearseTraining(engine, TrainingRequest());
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(reply.status().message()),
              HasSubstr("a step left the plan: 4096 bytes are needed"));
  engine.start_status = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(RehearseTraining(engine, TrainingRequest()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TrainingRehearsalTest, AJobThatRefusesRandomRowsIsWell) {
  CountingEngine engine;
  engine.step_status = absl::InvalidArgumentError("the loss is not finite");
  EXPECT_TRUE(RehearseTraining(engine, TrainingRequest()).ok());
  engine.start_status = absl::InvalidArgumentError("label 7");
  EXPECT_TRUE(RehearseTraining(engine, TrainingRequest()).ok());
}

TEST(TrainingRehearsalTest, AJobThatCannotBePlannedIsRefused) {
  CountingEngine engine;
  engine.plan_status = absl::InvalidArgumentError("no such layer");
  EXPECT_EQ(RehearseTraining(engine, TrainingRequest()).status(),
            engine.plan_status);
}

}  // namespace
}  // namespace gpupool::server
