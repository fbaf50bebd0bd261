#include "server/serving/ensemble_executor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/ensemble_fixture.h"
#include "tests/server/serving/test_call.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EnsembleExecutorTest : public ::testing::Test {
 protected:
  void Make(uint32_t max_in_flight) {
    EnsembleSpec spec = ChainSpec();
    spec.max_in_flight = max_in_flight;
    executor_ = std::make_shared<EnsembleExecutor>(steps_.Bind(spec), nullptr);
  }
  void AnswerAll() {
    steps_["pre"].Answer();
    steps_["net"].Answer();
  }

  FakeSteps steps_;
  std::shared_ptr<EnsembleExecutor> executor_;
};

TEST_F(EnsembleExecutorTest, CountsAnswersAsTritonDoes) {
  Make(8);
  TestCall call(2, {1, 2, 3, 4});
  executor_->Enqueue(&call);
  EXPECT_EQ(executor_->in_flight(), 1u);
  AnswerAll();
  ASSERT_TRUE(call.is_done());
  EXPECT_THAT(call.output(), ElementsAre(4, 8, 12, 16));
  EXPECT_EQ(executor_->in_flight(), 0u);
  const StatisticsSnapshot counts = executor_->statistics().Snapshot();
  EXPECT_EQ(counts.rows, 2u);
  EXPECT_EQ(counts.batches, 1u);
  EXPECT_EQ(counts.success.count, 1u);
  EXPECT_EQ(counts.fail.count, 0u);
  ASSERT_EQ(counts.batch_sizes.size(), 1u);
  EXPECT_EQ(counts.batch_sizes[0].rows, 2u);
}

TEST_F(EnsembleExecutorTest, AFailedStepCountsAsAFailedRequest) {
  Make(8);
  TestCall call(1, {1, 2});
  executor_->Enqueue(&call);
  steps_["pre"].Answer(absl::InternalError("broken"));
  ASSERT_TRUE(call.is_done());
  EXPECT_EQ(call.status().code(), absl::StatusCode::kInternal);
  const StatisticsSnapshot counts = executor_->statistics().Snapshot();
  EXPECT_EQ(counts.rows, 0u);
  EXPECT_EQ(counts.batches, 0u);
  EXPECT_EQ(counts.fail.count, 1u);
}

TEST_F(EnsembleExecutorTest, RequestsInFlightAreBounded) {
  Make(1);
  TestCall first(1, {1, 2}), second(1, {1, 2}), third(1, {1, 2});
  executor_->Enqueue(&first);
  executor_->Enqueue(&second);
  ASSERT_TRUE(second.is_done());
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
  EXPECT_THAT(
      std::string(second.status().message()),
      HasSubstr("ensemble 'chain' version 1 works on at most 1 request at"));
  AnswerAll();
  EXPECT_TRUE(first.status().ok());
  executor_->Enqueue(&third);
  EXPECT_FALSE(third.is_done());
  AnswerAll();
  EXPECT_TRUE(third.status().ok());
}

TEST_F(EnsembleExecutorTest, TheBytesBetweenStepsAreBounded) {
  auto binding = std::make_shared<EnsembleBinding>(*steps_.Bind(ChainSpec()));
  EXPECT_EQ(binding->row_bytes, 16u) << "two tensors of two floats";
  binding->row_bytes = EnsembleExecutor::kMaxHeldBytes / 2 + 1;
  executor_ = std::make_shared<EnsembleExecutor>(binding, nullptr);
  TestCall first(2, {1, 2, 3, 4}), second(1, {1, 2}), third(1, {1, 2});
  executor_->Enqueue(&first);
  EXPECT_FALSE(first.is_done()) << "it is alone";
  executor_->Enqueue(&second);
  ASSERT_TRUE(second.is_done());
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("between its steps"));
  AnswerAll();
  EXPECT_TRUE(first.status().ok());
  executor_->Enqueue(&third);
  AnswerAll();
  EXPECT_TRUE(third.status().ok());
}

TEST_F(EnsembleExecutorTest, ACancelReachesTheRunOfItsCallOnly) {
  Make(8);
  TestCall first(1, {1, 2}), second(1, {3, 4});
  executor_->Enqueue(&first);
  executor_->Enqueue(&second);
  executor_->Cancel(&first);
  ASSERT_TRUE(first.is_done());
  EXPECT_TRUE(absl::IsCancelled(first.status()));
  EXPECT_FALSE(second.is_done());
  executor_->Cancel(&first);  // it does not wait any more
  AnswerAll();
  EXPECT_THAT(second.output(), ElementsAre(12, 16));
}

TEST_F(EnsembleExecutorTest, AVersionThatIsGoneIsUnavailable) {
  Make(8);
  steps_.Forget("net");
  TestCall call(1, {1, 2});
  executor_->Enqueue(&call);
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(absl::IsUnavailable(call.status()));
  EXPECT_THAT(std::string(call.status().message()),
              HasSubstr("step 2 (model 'net' version 1) is not at ready"));
  EXPECT_THAT(steps_["pre"].waiting, IsEmpty());
}

TEST_F(EnsembleExecutorTest, CloseAnswersWhatWaitsAndWhatComes) {
  Make(8);
  TestCall first(1, {1, 2}), second(1, {1, 2});
  executor_->Enqueue(&first);
  executor_->Close(absl::UnavailableError("stopping"));
  ASSERT_TRUE(first.is_done());
  EXPECT_TRUE(absl::IsUnavailable(first.status()));
  executor_->Enqueue(&second);
  ASSERT_TRUE(second.is_done());
  EXPECT_EQ(second.status().message(), "stopping");
}

TEST_F(EnsembleExecutorTest, ANewBindingCountsForLaterCalls) {
  Make(8);
  TestCall first(1, {1, 2}), second(1, {1, 2});
  executor_->Enqueue(&first);
  FakeSteps others;
  executor_->SetBinding(others.Bind(ChainSpec()));
  executor_->Enqueue(&second);
  AnswerAll();
  EXPECT_TRUE(first.is_done());
  EXPECT_FALSE(second.is_done());
  others["pre"].Answer();
  others["net"].Answer();
  EXPECT_TRUE(second.is_done());
  EXPECT_EQ(executor_->statistics().Snapshot().success.count, 2u);
}

TEST_F(EnsembleExecutorTest, TheArrivalOfARequestIsToldForTraces) {
  Make(8);
  TestCall call(1, {1, 2});
  StageTimes stages;
  call.stages = &stages;
  executor_->Enqueue(&call);
  AnswerAll();
  EXPECT_NE(stages.arrival, absl::InfinitePast());
  EXPECT_EQ(stages.taken, absl::InfinitePast()) << "it was in no batch itself";
}

}  // namespace
}  // namespace gpupool::server
