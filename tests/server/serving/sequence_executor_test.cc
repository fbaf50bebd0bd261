#include "server/serving/sequence_executor.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/model_registry.h"
#include "tests/server/serving/sequence_fixture.h"
#include "tests/server/serving/test_call.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Control = v1::SequenceOptions::Control;

// The batcher is a fake step, which the test answers by hand: y and t are twice
// the sum of x, s and the controls.
class SequenceExecutorTest : public ::testing::Test {
 protected:
  void Make(const v1::ModelVersion& version, uint32_t max_waiting = 64) {
    const auto facts = MakeVersionFacts(version);
    ASSERT_TRUE(facts.ok()) << facts.status();
    executor_ = std::make_shared<SequenceExecutor>(
        SequenceParts{.plan = facts->sequences,
                      .batches = batches_,
                      .timer = &timer_,
                      .observer = nullptr},
        max_waiting);
  }
  TestCall* Send(uint64_t id, bool start, std::vector<float> x,
                 bool end = false) {
    calls_.push_back(std::make_unique<TestCall>(1, std::move(x)));
    TestCall* call = calls_.back().get();
    call->sequence = {.id = {.number = id}, .start = start, .end = end};
    executor_->Enqueue(call);
    return call;
  }
  // Sends a request that is answered at once.
  std::vector<float> Run(uint64_t id, bool start, std::vector<float> x) {
    batches_->at_once = true;
    TestCall* call = Send(id, start, std::move(x));
    batches_->at_once = false;
    EXPECT_TRUE(call->is_done());
    EXPECT_TRUE(call->status().ok()) << call->status();
    return call->output();
  }

  WakeTimer timer_;
  std::shared_ptr<FakeStep> batches_ = std::make_shared<FakeStep>(2);
  std::vector<std::unique_ptr<TestCall>> calls_;
  std::shared_ptr<SequenceExecutor> executor_;
};

TEST_F(SequenceExecutorTest, TheStateGoesFromRequestToRequest) {
  Make(SequenceVersion("sum"));
  EXPECT_THAT(Run(1, true, {1, 2}), ElementsAre(2, 4));
  EXPECT_THAT(Run(1, false, {1, 0}), ElementsAre(6, 8));
  EXPECT_THAT(Run(1, false, {0, 0}), ElementsAre(12, 16));
  EXPECT_THAT(Run(1, true, {1, 1}), ElementsAre(2, 2));
}

TEST_F(SequenceExecutorTest, SequencesDoNotMix) {
  Make(SequenceVersion("sum"));
  EXPECT_THAT(Run(1, true, {1, 0}), ElementsAre(2, 0));
  EXPECT_THAT(Run(2, true, {0, 1}), ElementsAre(0, 2));
  EXPECT_THAT(Run(1, false, {0, 0}), ElementsAre(4, 0));
  EXPECT_THAT(Run(2, false, {0, 0}), ElementsAre(0, 4));
}

TEST_F(SequenceExecutorTest, ASequenceBeginsWithTheInitialState) {
  v1::ModelVersion version = SequenceVersion("sum");
  const std::vector<float> initial = {5, 7};
  version.mutable_serving()
      ->mutable_sequences()
      ->mutable_states(0)
      ->set_initial(initial.data(), initial.size() * sizeof(float));
  Make(version);
  EXPECT_THAT(Run(1, true, {1, 1}), ElementsAre(12, 16));
  EXPECT_THAT(Run(2, true, {0, 0}), ElementsAre(10, 14));
}

TEST_F(SequenceExecutorTest, ControlsSayWhereARequestStands) {
  v1::ModelVersion version = StepVersion("flags", {"x"}, {"y", "z"});
  version.mutable_serving()->mutable_sequences()->set_max_idle_microseconds(
      uint64_t{3600} * 1'000'000);
  AddControl(Control::START, "start", &version);
  AddControl(Control::END, "end", &version);
  AddControl(Control::READY, "ready", &version);
  Make(version);
  const auto controls = [&](bool start, bool end) {
    TestCall* call = Send(1, start, {0, 0}, end);
    std::vector<float> values;
    for (size_t i = 1; i < 4; ++i) {
      const auto bytes = batches_->waiting.front()->inputs.bytes[i];
      EXPECT_EQ(bytes.size(), sizeof(float));
      std::memcpy(&values.emplace_back(), bytes.data(), sizeof(float));
    }
    batches_->Answer();
    EXPECT_TRUE(call->is_done());
    return values;
  };
  EXPECT_THAT(controls(true, false), ElementsAre(1, 0, 1));
  EXPECT_THAT(controls(false, false), ElementsAre(0, 0, 1));
  EXPECT_THAT(controls(false, true), ElementsAre(0, 1, 1));
  EXPECT_THAT(controls(true, true), ElementsAre(1, 1, 1));
}

TEST_F(SequenceExecutorTest, AModelMayTakeTheNumberOfTheSequence) {
  v1::ModelVersion version = SequenceVersion("sum");
  AddControl(Control::ID, "id", &version);
  version.mutable_plan()->mutable_inputs(2)->set_data_type(v1::INT64);
  Make(version);
  Send(77, true, {0, 0});
  int64_t number = 0;
  const auto bytes = batches_->waiting.front()->inputs.bytes[2];
  ASSERT_EQ(bytes.size(), sizeof(number));
  std::memcpy(&number, bytes.data(), sizeof(number));
  EXPECT_EQ(number, 77);
  batches_->Answer();
  TestCall text(1, {0, 0});
  text.sequence = {.id = {.number = 0, .text = "a"}, .start = true};
  executor_->Enqueue(&text);
  EXPECT_TRUE(absl::IsInvalidArgument(text.status()));
}

TEST_F(SequenceExecutorTest, OneRequestOfASequenceIsInTheBatcherAtATime) {
  Make(SequenceVersion("sum"));
  TestCall* a = Send(1, true, {1, 0});
  TestCall* b = Send(1, false, {0, 0});
  TestCall* other = Send(2, true, {3, 0});
  EXPECT_EQ(batches_->waiting.size(), 2u);
  batches_->Answer();
  EXPECT_TRUE(a->is_done());
  EXPECT_FALSE(b->is_done());
  batches_->Answer();
  EXPECT_TRUE(other->is_done());
  batches_->Answer();
  EXPECT_THAT(b->output(), ElementsAre(4, 0));
}

TEST_F(SequenceExecutorTest, ARequestHasOneRow) {
  Make(SequenceVersion("sum"));
  TestCall two(2, {1, 2, 3, 4});
  two.sequence = {.id = {.number = 1}, .start = true};
  executor_->Enqueue(&two);
  EXPECT_TRUE(absl::IsInvalidArgument(two.status()));
  EXPECT_THAT(std::string(two.status().message()),
              HasSubstr("must specify batch-size 1"));
}

TEST_F(SequenceExecutorTest, AFailureEndsTheSequence) {
  Make(SequenceVersion("sum"));
  TestCall* a = Send(1, true, {1, 0});
  TestCall* b = Send(1, false, {0, 0});
  batches_->Answer(absl::UnavailableError("the worker was lost"));
  EXPECT_TRUE(absl::IsUnavailable(a->status()));
  EXPECT_TRUE(absl::IsAborted(b->status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Send(1, false, {0, 0})->status()));
  EXPECT_THAT(Run(1, true, {1, 0}), ElementsAre(2, 0));
}

TEST_F(SequenceExecutorTest, AStateOfAnotherSizeIsRefused) {
  v1::ModelVersion version = SequenceVersion("sum");
  version.mutable_plan()->mutable_inputs(1)->set_shape(1, 1);
  version.mutable_plan()->mutable_outputs(1)->set_shape(1, 1);
  Make(version);
  TestCall* a = Send(1, true, {1, 0});
  batches_->Answer();
  EXPECT_TRUE(absl::IsInternal(a->status())) << a->status();
}

TEST_F(SequenceExecutorTest, CancelFindsRequestsInBothQueues) {
  Make(SequenceVersion("sum"));
  TestCall* a = Send(1, true, {1, 0});
  TestCall* b = Send(1, false, {0, 0});
  TestCall* c = Send(2, true, {0, 0});
  executor_->Cancel(b);
  EXPECT_TRUE(absl::IsCancelled(b->status()));
  executor_->Cancel(c);
  EXPECT_TRUE(absl::IsCancelled(c->status()));
  batches_->Answer();
  EXPECT_TRUE(a->status().ok());
  executor_->Cancel(a);  // too late
  EXPECT_TRUE(batches_->waiting.empty());
}

// The client has seen the request fail, so it does not know that the model
// computed it.
TEST_F(SequenceExecutorTest, ACancelOfWhatTheWorkerComputesEndsTheSequence) {
  Make(SequenceVersion("sum"));
  EXPECT_THAT(Run(1, true, {1, 0}), ElementsAre(2, 0));
  TestCall* a = Send(1, false, {1, 0});
  batches_->Launch();
  executor_->Cancel(a);
  EXPECT_FALSE(a->is_done()) << "the worker still reads its inputs";
  TestCall* retry = Send(1, false, {1, 0});
  batches_->Answer();
  EXPECT_TRUE(absl::IsCancelled(a->status())) << a->status();
  EXPECT_THAT(std::string(a->status().message()),
              HasSubstr("sequence 1 has ended"));
  ASSERT_TRUE(retry->is_done());
  EXPECT_TRUE(absl::IsAborted(retry->status())) << retry->status();
  EXPECT_TRUE(absl::IsInvalidArgument(Send(1, false, {1, 0})->status()));
  EXPECT_THAT(Run(1, true, {1, 0}), ElementsAre(2, 0));
}

TEST_F(SequenceExecutorTest, ADeadlineThatPassesOnTheWorkerEndsTheSequence) {
  Make(SequenceVersion("sum"));
  EXPECT_THAT(Run(1, true, {1, 0}), ElementsAre(2, 0));
  TestCall late(1, {1, 0});
  late.sequence = {.id = {.number = 1}};
  // The fake step does not look at the time, so the deadline passes there.
  late.deadline = absl::Now();
  executor_->Enqueue(&late);
  ASSERT_EQ(batches_->waiting.size(), 1u);
  batches_->Answer();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_TRUE(absl::IsInvalidArgument(Send(1, false, {1, 0})->status()));
}

TEST_F(SequenceExecutorTest, ANewStartBehindACancelledRequestIsComputed) {
  Make(SequenceVersion("sum"));
  TestCall* a = Send(1, true, {1, 0});
  batches_->Launch();
  executor_->Cancel(a);
  TestCall* again = Send(1, true, {3, 0});
  batches_->Answer();
  EXPECT_TRUE(absl::IsCancelled(a->status())) << a->status();
  batches_->Answer();
  EXPECT_THAT(again->output(), ElementsAre(6, 0));
}

// Answers that come inside Enqueue must not nest.
TEST_F(SequenceExecutorTest, ManyAnswersAtOnceNeedNoDeepStack) {
  constexpr int kRequests = 50'000;
  Make(SequenceVersion("sum"), kRequests);
  Send(1, true, {0, 0}, true);
  for (int i = 1; i < kRequests; ++i) Send(1, true, {1, 0}, true);
  batches_->at_once = true;
  batches_->Answer();
  for (const auto& call : calls_) ASSERT_TRUE(call->is_done());
  EXPECT_THAT(calls_.back()->output(), ElementsAre(2, 0));
}

TEST_F(SequenceExecutorTest, CloseAnswersWhatWaits) {
  Make(SequenceVersion("sum"));
  TestCall* a = Send(1, true, {1, 0});
  TestCall* b = Send(1, false, {0, 0});
  executor_->Close(absl::UnavailableError("closed"));
  EXPECT_TRUE(absl::IsUnavailable(b->status()));
  batches_->Answer();
  EXPECT_TRUE(a->status().ok());
  EXPECT_TRUE(absl::IsUnavailable(Send(2, true, {0, 0})->status()));
}

TEST_F(SequenceExecutorTest, ADrainRefusesSequencesWithoutAPlace) {
  v1::ModelVersion version = SequenceVersion("sum");
  version.mutable_serving()->mutable_sequences()->set_max_sequences(1);
  Make(version);
  TestCall* a = Send(1, true, {1, 0});
  TestCall* b = Send(2, true, {0, 0});
  executor_->Drain();
  EXPECT_TRUE(absl::IsUnavailable(b->status()));
  batches_->Answer();
  EXPECT_TRUE(a->status().ok());
}

// The timer ends it, not a later request.
TEST_F(SequenceExecutorTest, AnIdleSequenceMakesRoomForAnother) {
  v1::ModelVersion version = SequenceVersion("sum");
  auto* options = version.mutable_serving()->mutable_sequences();
  options->set_max_sequences(1);
  options->set_max_idle_microseconds(1000);
  Make(version);
  batches_->at_once = true;
  Send(1, true, {1, 0});
  TestCall* b = Send(2, true, {0, 0}, true);
  EXPECT_TRUE(b->WaitUntilDone());
  EXPECT_TRUE(b->status().ok()) << b->status();
}

}  // namespace
}  // namespace gpupool::server
