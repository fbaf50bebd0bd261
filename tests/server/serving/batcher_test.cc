#include "server/serving/batcher.h"

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/fake_worker.h"
#include "tests/server/serving/test_call.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorFormat Format(const std::string& name, int64_t features) {
  TensorFormat format;
  format.name = name;
  format.data_type = v1::FLOAT32;
  format.row_shape = {features};
  format.row_bytes = features * sizeof(float);
  return format;
}

BatcherOptions Options() {
  BatcherOptions options;
  options.label = "'m' version 1";
  options.version_id = 7;
  options.inputs = {Format("input", 2)};
  options.outputs = {Format("output", 2)};
  options.batch = {.max_batch_size = 4,
                   .max_queue_delay = absl::ZeroDuration(),
                   .max_in_flight = 1};
  options.max_queue_size = 8;
  return options;
}

class BatcherTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batcher> Make(const BatcherOptions& options,
                                std::shared_ptr<SlotRingClient> ring) {
    auto batcher = std::make_shared<Batcher>(options, &timer_, nullptr);
    batcher->SetRing(std::move(ring));
    return batcher;
  }
  void WaitForQueue(const Batcher& batcher, size_t length) {
    ASSERT_TRUE(WaitUntil([&] { return batcher.queue_length() == length; }))
        << batcher.queue_length();
  }

  WakeTimer timer_;
};

TEST_F(BatcherTest, AnswersARequestWithItsOwnRows) {
  FakeWorker worker;
  auto batcher = Make(Options(), worker.ring());
  TestCall call(2, {1, 2, 3, 4});
  batcher->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_THAT(call.output(), ElementsAre(2, 4, 6, 8));
}

TEST_F(BatcherTest, PutsWaitingRequestsTogetherAndHandsEachItsRows) {
  FakeWorker worker;
  worker.Pause();
  auto batcher = Make(Options(), worker.ring());
  TestCall first(1, {1, 1});
  TestCall second(1, {2, 2});
  TestCall third(2, {3, 3, 4, 4});
  TestCall fourth(2, {5, 5, 6, 6});  // does not fit the second batch
  for (TestCall* call : {&first, &second, &third, &fourth}) {
    batcher->Enqueue(call);
  }
  worker.Resume();
  for (TestCall* call : {&first, &second, &third, &fourth}) {
    ASSERT_TRUE(call->WaitUntilDone());
    ASSERT_TRUE(call->status().ok()) << call->status();
  }
  EXPECT_THAT(worker.batches(), ElementsAre(1, 3, 2));
  EXPECT_THAT(second.output(), ElementsAre(4, 4));
  EXPECT_THAT(third.output(), ElementsAre(6, 6, 8, 8));
  EXPECT_THAT(fourth.output(), ElementsAre(10, 10, 12, 12));
}

TEST_F(BatcherTest, FillsInTheStagesOfACallThatAsksForThem) {
  FakeWorker worker;
  worker.Pause();
  auto batcher = Make(Options(), worker.ring());
  TestCall first(1, {1, 1});
  TestCall second(1, {2, 2});
  TestCall third(2, {3, 3, 4, 4});
  StageTimes stages;
  second.stages = &stages;
  for (TestCall* call : {&first, &second, &third}) batcher->Enqueue(call);
  worker.Resume();
  for (TestCall* call : {&first, &second, &third}) {
    ASSERT_TRUE(call->WaitUntilDone());
  }
  EXPECT_GT(stages.arrival, absl::InfinitePast());
  EXPECT_GE(stages.taken, stages.arrival);
  EXPECT_GE(stages.submitted, stages.taken);
  EXPECT_GE(stages.answered, stages.submitted + stages.wait + stages.compute);
  EXPECT_EQ(stages.compute, absl::Nanoseconds(1000));
  EXPECT_EQ(stages.batch_requests, 2);
  EXPECT_EQ(stages.batch_rows, 3);
  EXPECT_EQ(stages.tries, 1);
}

TEST_F(BatcherTest, ACallThatIsRefusedReachedOnlyTheQueue) {
  auto batcher = Make(Options(), nullptr);
  TestCall call(1, {1, 1});
  StageTimes stages;
  call.stages = &stages;
  batcher->Enqueue(&call);
  batcher->Cancel(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_GT(stages.arrival, absl::InfinitePast());
  EXPECT_EQ(stages.taken, absl::InfinitePast());
  EXPECT_EQ(stages.tries, 0);
}

TEST_F(BatcherTest, RequestsThatComputeAloneShareNoBatch) {
  FakeWorker worker;
  worker.Pause();
  BatcherOptions options = Options();
  options.computes_alone = true;
  options.batch.max_queue_delay = absl::Hours(1);  // waits for nobody
  auto batcher = Make(options, worker.ring());
  TestCall first(1, {1, 1});
  TestCall second(1, {2, 2});
  TestCall third(2, {3, 3, 4, 4});
  for (TestCall* call : {&first, &second, &third}) batcher->Enqueue(call);
  worker.Resume();
  for (TestCall* call : {&first, &second, &third}) {
    ASSERT_TRUE(call->WaitUntilDone());
    ASSERT_TRUE(call->status().ok()) << call->status();
  }
  EXPECT_THAT(worker.batches(), ElementsAre(1, 1, 2));
  EXPECT_THAT(third.output(), ElementsAre(6, 6, 8, 8));
}

TEST_F(BatcherTest, WaitsForCompanyUntilTheDelayIsOver) {
  // If the machine is too busy to enqueue both in time, the test shows nothing
  // and is repeated with a longer delay.
  for (absl::Duration delay = absl::Milliseconds(60);; delay *= 2) {
    FakeWorker worker;
    BatcherOptions options = Options();
    options.batch.max_queue_delay = delay;
    auto batcher = Make(options, worker.ring());
    TestCall first(1, {1, 1});
    TestCall second(1, {2, 2});
    const absl::Time start = absl::Now();
    batcher->Enqueue(&first);
    batcher->Enqueue(&second);
    const bool in_time = absl::Now() < start + delay;
    ASSERT_TRUE(first.WaitUntilDone());
    ASSERT_TRUE(second.WaitUntilDone());
    if (!in_time) continue;
    EXPECT_GE(absl::Now() - start, delay - absl::Milliseconds(1));
    EXPECT_THAT(worker.batches(), ElementsAre(2));
    return;
  }
}

TEST_F(BatcherTest, SendsAFullBatchBeforeTheDelayIsOver) {
  FakeWorker worker;
  BatcherOptions options = Options();
  options.batch.max_queue_delay = absl::Seconds(30);
  auto batcher = Make(options, worker.ring());
  TestCall call(4, std::vector<float>(8, 1));
  batcher->Enqueue(&call);
  EXPECT_TRUE(call.WaitUntilDone());
}

TEST_F(BatcherTest, RefusesWhenTheQueueIsFullAndLosesNothing) {
  FakeWorker worker;
  worker.Pause();
  BatcherOptions options = Options();
  options.max_queue_size = 2;
  auto batcher = Make(options, worker.ring());
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 4; ++i) {  // one in flight, two wait, one too many
    calls.push_back(std::make_unique<TestCall>(1, std::vector<float>{1, 1}));
    batcher->Enqueue(calls.back().get());
  }
  ASSERT_TRUE(calls[3]->is_done());
  EXPECT_TRUE(absl::IsUnavailable(calls[3]->status()));
  EXPECT_THAT(std::string(calls[3]->status().message()),
              HasSubstr("Exceeds maximum queue size of 2"));
  worker.Resume();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(calls[i]->WaitUntilDone());
    EXPECT_TRUE(calls[i]->status().ok());
  }
}

TEST_F(BatcherTest, DropsExpiredRequestsBeforeTheyAreLaunched) {
  FakeWorker worker;
  worker.Pause();
  auto batcher = Make(Options(), worker.ring());
  TestCall running(1, {1, 1});
  TestCall by_deadline(1, {2, 2});
  TestCall by_timeout(1, {3, 3});
  by_deadline.deadline = absl::Now() + absl::Milliseconds(20);
  by_timeout.queue_deadline = absl::Now() + absl::Milliseconds(20);
  for (TestCall* call : {&running, &by_deadline, &by_timeout}) {
    batcher->Enqueue(call);
  }
  ASSERT_TRUE(by_deadline.WaitUntilDone());
  ASSERT_TRUE(by_timeout.WaitUntilDone());
  EXPECT_TRUE(absl::IsDeadlineExceeded(by_deadline.status()));
  EXPECT_TRUE(absl::IsUnavailable(by_timeout.status()));
  EXPECT_THAT(std::string(by_timeout.status().message()),
              HasSubstr("Request timeout expired"));
  worker.Resume();
  ASSERT_TRUE(running.WaitUntilDone());
  EXPECT_THAT(worker.batches(), ElementsAre(1));
}

TEST_F(BatcherTest, CancelDropsARowThatWaitsAndIgnoresOneInFlight) {
  FakeWorker worker;
  worker.Pause();
  auto batcher = Make(Options(), worker.ring());
  TestCall running(1, {1, 1});
  TestCall waiting(1, {2, 2});
  batcher->Enqueue(&running);
  batcher->Enqueue(&waiting);
  batcher->Cancel(&running);
  batcher->Cancel(&waiting);
  EXPECT_FALSE(running.is_done());
  ASSERT_TRUE(waiting.is_done());
  EXPECT_TRUE(absl::IsCancelled(waiting.status()));
  worker.Resume();
  ASSERT_TRUE(running.WaitUntilDone());
  EXPECT_TRUE(running.status().ok());
  EXPECT_THAT(worker.batches(), ElementsAre(1));
}

TEST_F(BatcherTest, PassesOnTheWorkersErrorToEveryRequestOfTheBatch) {
  FakeWorker worker;
  worker.SetRule(
      [](const SlotRequest&) { return absl::InternalError("kernel failed"); });
  auto batcher = Make(Options(), worker.ring());
  TestCall call(1, {1, 1});
  batcher->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(absl::IsInternal(call.status()));
  EXPECT_THAT(std::string(call.status().message()), HasSubstr("kernel failed"));
  EXPECT_EQ(worker.batches().size(), 1u);
}

// Answers like a model whose input has an index outside of a table.
absl::Status RefuseNegativeNumbers(const SlotRequest& request) {
  const SlotTensor& in = request.header.inputs[0];
  std::vector<float> values(in.bytes / sizeof(float));
  std::memcpy(values.data(), request.payload.data() + in.offset, in.bytes);
  for (const float value : values) {
    if (value < 0) return absl::InvalidArgumentError("an index is negative");
  }
  return absl::OkStatus();
}

TEST_F(BatcherTest, ARefusedRequestHarmsNoOtherOfItsBatch) {
  FakeWorker worker;
  worker.SetRule(RefuseNegativeNumbers);
  worker.Pause();
  auto batcher = Make(Options(), worker.ring());
  TestCall running(1, {1, 1});
  TestCall good(1, {2, 2});
  TestCall bad(1, {-1, 3});
  TestCall fine(1, {4, 4});
  TestCall later(1, {5, 5});
  for (TestCall* call : {&running, &good, &bad, &fine, &later}) {
    batcher->Enqueue(call);
  }
  worker.Resume();
  for (TestCall* call : {&running, &good, &bad, &fine, &later}) {
    ASSERT_TRUE(call->WaitUntilDone());
  }
  EXPECT_THAT(worker.batches(), ElementsAre(1, 4, 1, 1, 1, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
  EXPECT_THAT(good.output(), ElementsAre(4, 4));
  EXPECT_THAT(fine.output(), ElementsAre(8, 8));
  EXPECT_THAT(later.output(), ElementsAre(10, 10));
}

TEST_F(BatcherTest, TriesOnceMoreOnTheNextWorkerWhenOneIsLost) {
  FakeWorker lost;
  lost.Pause();
  auto batcher = Make(Options(), lost.ring());
  TestCall in_flight(1, {1, 1});
  TestCall waiting(1, {2, 2});
  batcher->Enqueue(&in_flight);
  batcher->Enqueue(&waiting);
  lost.Die();
  batcher->SetRing(nullptr);
  EXPECT_FALSE(in_flight.is_done());
  EXPECT_FALSE(waiting.is_done());
  FakeWorker next;
  batcher->SetRing(next.ring());
  ASSERT_TRUE(in_flight.WaitUntilDone());
  ASSERT_TRUE(waiting.WaitUntilDone());
  EXPECT_THAT(in_flight.output(), ElementsAre(2, 2));
  EXPECT_THAT(waiting.output(), ElementsAre(4, 4));
}

TEST_F(BatcherTest, AnswersUnavailableWhenTheSecondTryIsLostToo) {
  FakeWorker first, second;
  first.Pause();
  second.Pause();
  auto batcher = Make(Options(), first.ring());
  TestCall call(1, {1, 1});
  batcher->Enqueue(&call);
  first.Die();
  batcher->SetRing(second.ring());
  WaitForQueue(*batcher, 0);
  second.Die();
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(absl::IsUnavailable(call.status()));
}

TEST_F(BatcherTest, GivesUpOnALostWorkerAfterTheRecoveryWait) {
  BatcherOptions options = Options();
  options.recovery_wait = absl::Milliseconds(30);
  auto batcher = Make(options, nullptr);
  TestCall call(1, {1, 1});
  batcher->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(absl::IsUnavailable(call.status()));
  EXPECT_THAT(std::string(call.status().message()), HasSubstr("was lost"));
}

TEST_F(BatcherTest, EachRequestHasTheWholeRecoveryWaitFromItsArrival) {
  BatcherOptions options = Options();
  options.recovery_wait = absl::Milliseconds(30);
  auto batcher = Make(options, nullptr);
  TestCall first(1, {1, 1});
  batcher->Enqueue(&first);
  ASSERT_TRUE(first.WaitUntilDone());
  // The worker is now lost for longer than the wait.
  const absl::Time arrival = absl::Now();
  TestCall late(1, {2, 2});
  batcher->Enqueue(&late);
  ASSERT_TRUE(late.WaitUntilDone());
  EXPECT_TRUE(absl::IsUnavailable(late.status()));
  EXPECT_GE(absl::Now() - arrival, options.recovery_wait);
}

TEST_F(BatcherTest, DrainingWithoutAWorkerAnswersAtOnce) {
  auto batcher = Make(Options(), nullptr);
  TestCall call(1, {1, 1});
  batcher->Enqueue(&call);
  EXPECT_FALSE(call.is_done());
  batcher->Drain();
  ASSERT_TRUE(call.is_done());
  EXPECT_TRUE(absl::IsUnavailable(call.status()));
}

TEST_F(BatcherTest, TellsTheClientToRetryWhileANewWorkerLacksTheVersion) {
  FakeWorker worker;
  worker.SetRule([](const SlotRequest&) {
    return absl::NotFoundError("version 10 is not loaded here");
  });
  auto batcher = Make(Options(), worker.ring());
  TestCall call(1, {1, 1});
  batcher->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(absl::IsUnavailable(call.status())) << call.status();
}

TEST_F(BatcherTest, CloseAnswersWhatWaitsAndWhatComesLater) {
  FakeWorker worker;
  worker.Pause();
  auto batcher = Make(Options(), worker.ring());
  TestCall running(1, {1, 1});
  TestCall waiting(1, {2, 2});
  TestCall late(1, {3, 3});
  batcher->Enqueue(&running);
  batcher->Enqueue(&waiting);
  batcher->Close(absl::UnavailableError("shutting down"));
  batcher->Enqueue(&late);
  ASSERT_TRUE(waiting.is_done());
  ASSERT_TRUE(late.is_done());
  EXPECT_TRUE(absl::IsUnavailable(late.status()));
  worker.Resume();
  ASSERT_TRUE(running.WaitUntilDone());
  EXPECT_TRUE(running.status().ok());
}

TEST_F(BatcherTest, RefusesRowsThatDoNotFitASlotAndSaysHowMuchFits) {
  FakeWorker worker({.slot_count = 2, .slot_bytes = 4096});
  BatcherOptions options = Options();
  options.batch.max_batch_size = 512;  // 512 rows need 8192 bytes
  auto batcher = Make(options, worker.ring());
  TestCall large(512, std::vector<float>(1024, 1));
  TestCall small(256, std::vector<float>(512, 1));  // exactly 4096 bytes
  batcher->Enqueue(&large);
  batcher->Enqueue(&small);
  ASSERT_TRUE(large.WaitUntilDone());
  EXPECT_TRUE(absl::IsResourceExhausted(large.status()));
  EXPECT_THAT(std::string(large.status().message()),
              HasSubstr("at most 256 rows"));
  ASSERT_TRUE(small.WaitUntilDone());
  EXPECT_TRUE(small.status().ok()) << small.status();
}

TEST_F(BatcherTest, WaitsForASlotThatAnotherModelHolds) {
  FakeWorker worker({.slot_count = 1, .slot_bytes = 4096});
  auto batcher = Make(Options(), worker.ring());
  std::optional<Slot> taken = worker.ring()->Acquire();
  ASSERT_TRUE(taken.has_value());
  TestCall call(1, {1, 1});
  batcher->Enqueue(&call);
  LetOthersRun();
  EXPECT_FALSE(call.is_done());
  taken.reset();
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_TRUE(call.status().ok());
}

TEST_F(BatcherTest, CountsRequestsRowsBatchesAndStages) {
  FakeWorker worker;
  auto batcher = Make(Options(), worker.ring());
  TestCall call(3, std::vector<float>(6, 1));
  batcher->Enqueue(&call);
  ASSERT_TRUE(call.WaitUntilDone());
  const StatisticsSnapshot snapshot = batcher->statistics().Snapshot();
  EXPECT_EQ(snapshot.success.count, 1u);
  EXPECT_EQ(snapshot.rows, 3u);
  EXPECT_EQ(snapshot.batches, 1u);
  EXPECT_EQ(snapshot.compute.nanos, 1000u);
  EXPECT_EQ(snapshot.success.nanos,
            snapshot.queue.nanos + snapshot.copy_in.nanos +
                snapshot.compute.nanos + snapshot.copy_out.nanos);
  ASSERT_EQ(snapshot.batch_sizes.size(), 1u);
  EXPECT_EQ(snapshot.batch_sizes[0].rows, 3u);
}

TEST_F(BatcherTest, ASecondBatchWaitsForTheFirstWhileBatchesAreShort) {
  FakeWorker worker;
  BatcherOptions options = Options();
  options.batch.max_in_flight = 2;
  auto batcher = Make(options, worker.ring());
  // Returns how many of two requests wait while the worker is paused.
  const auto waiting_of_two = [&] {
    worker.Pause();
    TestCall first(1, {1, 1});
    TestCall second(1, {2, 2});
    batcher->Enqueue(&first);
    batcher->Enqueue(&second);
    const size_t waiting = batcher->queue_length();
    worker.Resume();
    EXPECT_TRUE(first.WaitUntilDone());
    EXPECT_TRUE(second.WaitUntilDone());
    EXPECT_THAT(first.output(), ElementsAre(2, 2));
    EXPECT_THAT(second.output(), ElementsAre(4, 4));
    return waiting;
  };
  // Both fly until a batch was measured. A busy machine may take several to
  // measure a short one.
  EXPECT_EQ(waiting_of_two(), 0u);
  EXPECT_TRUE(WaitUntil([&] { return waiting_of_two() == 1; }));
  // A batch that had to wait for a busy worker is not short.
  worker.Pause();
  TestCall late(1, {1, 1});
  batcher->Enqueue(&late);
  LetOthersRun(absl::Milliseconds(20));
  worker.Resume();
  ASSERT_TRUE(late.WaitUntilDone());
  EXPECT_EQ(waiting_of_two(), 0u);
}

TEST_F(BatcherTest, ManyThreadsGetTheirOwnAnswersWhileAWorkerIsReplaced) {
  BatcherOptions options = Options();
  options.batch.max_in_flight = 2;
  options.max_queue_size = 1000;
  auto first = std::make_unique<FakeWorker>();
  FakeWorker second;
  auto batcher = Make(options, first->ring());
  constexpr int kThreads = 4;
  constexpr int kCalls = 200;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const float value = static_cast<float>(t * kCalls + i);
        TestCall call(1, {value, value});
        batcher->Enqueue(&call);
        ASSERT_TRUE(call.WaitUntilDone());
        ASSERT_TRUE(call.status().ok()) << call.status();
        if (call.output()[0] == 2 * value) ++right;
      }
    });
  }
  LetOthersRun(absl::Milliseconds(5));
  first->Die();
  batcher->SetRing(nullptr);
  batcher->SetRing(second.ring());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kCalls);
}

// A call with rows of one or two numbers, rounded up to two.
class SizedCall : public TestCall {
 public:
  SizedCall(std::vector<float> values, int64_t size, int64_t served)
      : TestCall(1, std::move(values)) {
    inputs.sizes = {size};
    inputs.served = {served};
  }
};

TEST_F(BatcherTest, RequestsOfOtherSizesWaitForTheNextBatch) {
  FakeWorker worker;
  BatcherOptions options = Options();
  options.inputs[0] = Format("input", 4);
  options.inputs[0].variable = {{.axis = 0, .dimension = 0}};
  options.inputs[0].pad.assign(4, std::byte{0});
  options.outputs[0] = Format("output", 4);
  options.outputs[0].variable = {{.axis = 0, .dimension = 0}};
  auto batcher = Make(options, worker.ring());
  worker.Pause();
  SizedCall first({1, 2}, 2, 2), second({3}, 1, 2), third({4}, 1, 2),
      other({5, 6, 7}, 3, 4), last({8}, 1, 2);
  for (SizedCall* call : {&first, &second, &third, &other, &last}) {
    batcher->Enqueue(call);
  }
  WaitForQueue(*batcher, 4);  // the first is at the worker
  worker.Resume();
  for (SizedCall* call : {&first, &second, &third, &other, &last}) {
    ASSERT_TRUE(call->WaitUntilDone());
    EXPECT_TRUE(call->status().ok()) << call->status();
  }
  EXPECT_THAT(worker.batches(), ElementsAre(1, 2, 1, 1));
  EXPECT_THAT(first.output(), ElementsAre(2, 4));
  EXPECT_THAT(third.output(), ElementsAre(8, 0));
  EXPECT_THAT(other.output(), ElementsAre(10, 12, 14, 0));
  EXPECT_THAT(other.output_shapes, ElementsAre(ElementsAre(4)));
}

}  // namespace
}  // namespace gpupool::server
