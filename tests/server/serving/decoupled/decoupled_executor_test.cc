#include "server/serving/decoupled/decoupled_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/server/serving/fake_worker.h"
#include "tests/server/serving/served_model.h"
#include "tests/server/serving/test_call.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A call that counts its responses, and asks for the next one by itself.
class ReadingCall : public TestCall {
 public:
  explicit ReadingCall(CallExecutor* executor, bool reads = true)
      : TestCall(1, {1, 2}), executor_(executor), reads_(reads) {}

  void OnResponse(
      absl::Span<const absl::Span<const std::byte>> outputs) override {
    float value = 0;
    std::memcpy(&value, outputs[0].data(), sizeof(value));
    {
      absl::MutexLock lock(&mutex_);
      values_.push_back(value);
    }
    if (reads_) executor_->Resume(this);
  }
  std::vector<float> values() const {
    absl::MutexLock lock(&mutex_);
    return values_;
  }

 private:
  CallExecutor* const executor_;
  const bool reads_;
  mutable absl::Mutex mutex_;
  std::vector<float> values_ ABSL_GUARDED_BY(mutex_);
};

// Gives 0, 1, 2, ...
class CountingSource : public ResponseSource {
 public:
  CountingSource(uint32_t count, absl::Time due) : count_(count), due_(due) {}
  uint32_t count() const override { return count_; }
  absl::Time DueAt(uint32_t index) const override {
    return index == 0 ? absl::InfinitePast() : due_;
  }
  SourcedResponse At(uint32_t index) override {
    value_ = static_cast<float>(index);
    return {.outputs = {{reinterpret_cast<const std::byte*>(&value_),
                         sizeof(value_)}},
            .shapes = {{1}},
            .has_output = {true}};
  }

 private:
  const uint32_t count_;
  const absl::Time due_;
  float value_ = 0;
};

class DecoupledExecutorTest : public ::testing::Test {
 protected:
  // Makes an executor whose requests have so many responses, those after the
  // first at `due`.
  std::shared_ptr<DecoupledExecutor> Counting(
      uint32_t count, absl::Time due = absl::InfinitePast()) {
    DecoupledParts parts;
    parts.label = "'count' version 1";
    parts.max_requests = 2;
    parts.timer = &timer_;
    parts.make_source = [count, due](const InferenceCall&, auto) {
      std::unique_ptr<ResponseSource> source =
          std::make_unique<CountingSource>(count, due);
      return absl::StatusOr<std::unique_ptr<ResponseSource>>(std::move(source));
    };
    return std::make_shared<DecoupledExecutor>(std::move(parts));
  }

  WakeTimer timer_;
};

TEST_F(DecoupledExecutorTest, AllResponsesComeInOrderBeforeTheEnd) {
  const auto executor = Counting(3);
  ReadingCall call(executor.get());
  executor->Enqueue(&call);
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(call.status().ok());
  EXPECT_THAT(call.values(), ElementsAre(0, 1, 2));
  const StatisticsSnapshot statistics = executor->statistics().Snapshot();
  EXPECT_EQ(statistics.success.count, 1u);
  ASSERT_EQ(statistics.responses.size(), 4u);
  EXPECT_EQ(statistics.responses[2].success.count, 1u);
  EXPECT_EQ(statistics.responses[3].empty.count, 1u);
  EXPECT_EQ(executor->in_flight(), 0u);
}

TEST_F(DecoupledExecutorTest, ARequestMayHaveNoResponse) {
  const auto executor = Counting(0);
  ReadingCall call(executor.get());
  executor->Enqueue(&call);
  ASSERT_TRUE(call.is_done());
  EXPECT_THAT(call.values(), IsEmpty());
}

TEST_F(DecoupledExecutorTest, TheNextResponseWaitsUntilTheLastOneIsRead) {
  const auto executor = Counting(2);
  ReadingCall call(executor.get(), /*reads=*/false);
  executor->Enqueue(&call);
  EXPECT_THAT(call.values(), ElementsAre(0));
  EXPECT_FALSE(call.is_done());
  executor->Resume(&call);
  EXPECT_THAT(call.values(), ElementsAre(0, 1));
  EXPECT_TRUE(call.is_done());
}

TEST_F(DecoupledExecutorTest, ResponsesWaitUntilTheyAreDue) {
  const auto executor = Counting(2, absl::Now() + absl::Milliseconds(20));
  ReadingCall call(executor.get());
  executor->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_THAT(call.values(), ElementsAre(0, 1));
}

TEST_F(DecoupledExecutorTest, CancelEndsARequestBetweenTwoResponses) {
  const auto executor = Counting(2, absl::InfiniteFuture());
  ReadingCall call(executor.get());
  executor->Enqueue(&call);
  executor->Cancel(&call);
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(absl::IsCancelled(call.status()));
  EXPECT_THAT(call.values(), ElementsAre(0));
  const StatisticsSnapshot statistics = executor->statistics().Snapshot();
  EXPECT_EQ(statistics.fail.count, 1u);
  EXPECT_EQ(statistics.responses[1].cancel.count, 1u);
}

TEST_F(DecoupledExecutorTest, MoreRequestsThanTheLimitAreRefused) {
  const auto executor = Counting(2, absl::InfiniteFuture());
  ReadingCall first(executor.get()), second(executor.get());
  executor->Enqueue(&first);
  executor->Enqueue(&second);
  ReadingCall third(executor.get());
  executor->Enqueue(&third);
  ASSERT_TRUE(third.is_done());
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_THAT(std::string(third.status().message()),
              HasSubstr("at most 2 requests at a time"));
  executor->Close(absl::UnavailableError("closed"));
  EXPECT_TRUE(absl::IsUnavailable(first.status()));
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
}

TEST_F(DecoupledExecutorTest, AnUnloadEndsRequestsThatNeedNoWorker) {
  const auto executor = Counting(2, absl::InfiniteFuture());
  ReadingCall call(executor.get());
  executor->Enqueue(&call);
  executor->Drain();
  ASSERT_TRUE(call.is_done());
  EXPECT_THAT(std::string(call.status().message()), HasSubstr("unloaded"));
}

TEST_F(DecoupledExecutorTest, AnErrorOfTheSourceIsTheAnswer) {
  DecoupledParts parts;
  parts.max_requests = 1;
  parts.timer = &timer_;
  parts.make_source =
      [](const InferenceCall&,
         auto) -> absl::StatusOr<std::unique_ptr<ResponseSource>> {
    return absl::InvalidArgumentError("wrong");
  };
  const auto executor = std::make_shared<DecoupledExecutor>(std::move(parts));
  ReadingCall call(executor.get());
  executor->Enqueue(&call);
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(absl::IsInvalidArgument(call.status()));
}

// A model whose output is twice its input, as if a Loop had stacked its rows.
class DecoupleLoopTest : public DecoupledExecutorTest {
 protected:
  DecoupleLoopTest() {
    v1::ModelVersion version = MakeModelVersion("loop", 1, 10);
    for (auto* tensor : {version.mutable_plan()->mutable_inputs(0),
                         version.mutable_plan()->mutable_outputs(0)}) {
      tensor->clear_shape();
      tensor->add_shape(2);
    }
    version.mutable_plan()->mutable_outputs(0)->set_loop("walk");
    version.mutable_serving()->set_decoupled(true);
    const VersionFacts facts = *MakeVersionFacts(version);
    BatcherOptions options;
    options.label = facts.label;
    options.version_id = facts.id;
    options.inputs = facts.inputs;
    options.outputs = facts.outputs;
    options.batch.max_batch_size = 1;
    batcher_ = std::make_shared<Batcher>(std::move(options), &timer_, nullptr);
    executor_ = DecoupleLoop(facts, batcher_, &timer_);
  }

  FakeWorker worker_;
  std::shared_ptr<Batcher> batcher_;
  std::shared_ptr<CallExecutor> executor_;
};

TEST_F(DecoupleLoopTest, EachRowOfTheAnswerIsAResponse) {
  batcher_->SetRing(worker_.ring());
  ReadingCall call(executor_.get());
  executor_->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_THAT(call.values(), ElementsAre(2, 4));
  const StatisticsSnapshot statistics = executor_->statistics().Snapshot();
  EXPECT_EQ(statistics.success.count, 1u);
}

TEST_F(DecoupleLoopTest, CancelTakesAWaitingRequestOutOfTheQueue) {
  ReadingCall call(executor_.get());
  executor_->Enqueue(&call);  // there is no worker
  executor_->Cancel(&call);
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(absl::IsCancelled(call.status()));
  EXPECT_EQ(batcher_->queue_length(), 0u);
}

TEST_F(DecoupleLoopTest, AnErrorOfTheWorkerIsTheAnswer) {
  worker_.SetRule([](const SlotRequest&) {
    return absl::InvalidArgumentError("the loop is too long");
  });
  batcher_->SetRing(worker_.ring());
  ReadingCall call(executor_.get());
  executor_->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_THAT(std::string(call.status().message()), HasSubstr("too long"));
  EXPECT_THAT(call.values(), IsEmpty());
}

}  // namespace
}  // namespace gpupool::server
