#include <cstring>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/ipc/slot_ring.h"
#include "tests/server/ipc/ring_pair.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using testing_ring::FillRequest;
using testing_ring::RingPair;

TEST(SlotRingClientTest, ResultAppearsInTheSameSlot) {
  RingPair pair = RingPair::Make({2, 4096});
  absl::Notification answered;
  Slot slot = *pair.client->Acquire();
  FillRequest(&slot, 1.5f);
  pair.client->Submit(std::move(slot), [&](absl::Status status, Slot slot) {
    EXPECT_TRUE(status.ok()) << status;
    float value = 0;
    std::memcpy(&value, slot.output(0).data(), sizeof(value));
    EXPECT_EQ(value, 3.0f);
    EXPECT_EQ(slot.header().compute_nanos, 7);
    answered.Notify();
  });
  pair.ServeDoubling(1);
  answered.WaitForNotification();
  pair.client->FailAll(absl::UnavailableError("end"));
  EXPECT_EQ(pair.client->slots_in_use(), 0u);
}

TEST(SlotRingClientTest, WorkerErrorReachesTheCaller) {
  RingPair pair = RingPair::Make({1, 4096});
  absl::Notification answered;
  Slot slot = *pair.client->Acquire();
  FillRequest(&slot, 1);
  pair.client->Submit(std::move(slot), [&](absl::Status status, Slot) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(status.message(), std::string(251, 'm'));
    answered.Notify();
  });
  pair.server->Wait(-1, absl::Seconds(10));
  pair.server->Complete(*pair.server->Next(),
                        absl::NotFoundError(std::string(1000, 'm')));
  answered.WaitForNotification();
}

TEST(SlotRingClientTest, SlotsAreBoundedAndComeBack) {
  RingPair pair = RingPair::Make({2, 4096});
  auto first = pair.client->Acquire();
  auto second = pair.client->Acquire();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(pair.client->Acquire().has_value());
  EXPECT_FALSE(pair.client->AcquireUntil(absl::Now() + absl::Milliseconds(5))
                   .has_value());
  int called = 0;
  pair.client->NotifyWhenFree([&] { ++called; });
  EXPECT_EQ(called, 0);
  second.reset();
  EXPECT_EQ(called, 1);
  pair.client->NotifyWhenFree([&] { ++called; });
  EXPECT_EQ(called, 2);
  EXPECT_TRUE(pair.client->Acquire().has_value());
}

TEST(SlotRingClientTest, FailAllAnswersWhatIsOutstandingAndWhatComesLater) {
  RingPair pair = RingPair::Make({3, 4096});
  std::vector<absl::StatusCode> codes;
  const auto record = [&](absl::Status status, Slot) {
    codes.push_back(status.code());
  };
  Slot held = *pair.client->Acquire();
  for (int i = 0; i < 2; ++i) {
    Slot slot = *pair.client->Acquire();
    FillRequest(&slot, 1);
    pair.client->Submit(std::move(slot), record);
  }
  bool waiter_called = false;
  pair.client->NotifyWhenFree([&] { waiter_called = true; });
  pair.client->FailAll(absl::UnavailableError("the worker is gone"));
  EXPECT_EQ(codes, std::vector(2, absl::StatusCode::kUnavailable));
  EXPECT_TRUE(waiter_called);
  EXPECT_TRUE(pair.client->failed());
  EXPECT_FALSE(pair.client->Acquire().has_value());
  FillRequest(&held, 1);
  pair.client->Submit(std::move(held), record);
  EXPECT_EQ(codes, std::vector(3, absl::StatusCode::kUnavailable));
  pair.client->FailAll(absl::UnavailableError("again"));
  EXPECT_EQ(pair.client->slots_in_use(), 0u);
}

TEST(SlotRingClientTest, FailAllWakesABlockedAcquire) {
  RingPair pair = RingPair::Make({1, 4096});
  auto held = pair.client->Acquire();
  std::thread thread([&] {
    EXPECT_FALSE(pair.client->AcquireUntil(absl::InfiniteFuture()).has_value());
  });
  LetOthersRun(absl::Milliseconds(5));
  pair.client->FailAll(absl::UnavailableError("gone"));
  thread.join();
}

TEST(SlotRingClientTest, MalformedHeaderIsRefusedBeforeTheWorkerSeesIt) {
  RingPair pair = RingPair::Make({1, 4096});
  Slot slot = *pair.client->Acquire();
  FillRequest(&slot, 1);
  slot.header().inputs[0].bytes = 4100;
  bool called = false;
  pair.client->Submit(std::move(slot), [&](absl::Status status, Slot) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    called = true;
  });
  EXPECT_TRUE(called);
  EXPECT_FALSE(pair.server->HasRequests());
}

TEST(SlotRingClientTest, AnswerToASlotNotAskedFailsTheRing) {
  RingPair pair = RingPair::Make({2, 4096});
  SlotRequest never_asked;
  never_asked.index = 1;
  never_asked.header.sequence = 99;
  absl::Notification answered;
  Slot slot = *pair.client->Acquire();
  FillRequest(&slot, 1);
  pair.client->Submit(std::move(slot), [&](absl::Status status, Slot) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    answered.Notify();
  });
  pair.server->Complete(never_asked, absl::OkStatus());
  answered.WaitForNotification();
  EXPECT_TRUE(pair.client->failed());
}

TEST(SlotRingClientTest, OverwrittenCompletionQueueFailsTheRing) {
  RingPair pair = RingPair::Make({2, 4096});
  absl::Notification answered;
  Slot slot = *pair.client->Acquire();
  FillRequest(&slot, 1);
  pair.client->Submit(std::move(slot), [&](absl::Status status, Slot) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    answered.Notify();
  });
  pair.completion_queue()->tail.store(5000);
  pair.RingDaemon();
  answered.WaitForNotification();
  EXPECT_TRUE(pair.client->failed());
}

TEST(SlotRingClientTest, WorkerCannotMoveTheOutputsOrInventCodes) {
  RingPair pair = RingPair::Make({1, 4096});
  absl::Notification answered;
  Slot slot = *pair.client->Acquire();
  FillRequest(&slot, 1);
  pair.client->Submit(std::move(slot), [&](absl::Status status, Slot slot) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_EQ(slot.header().outputs[0].offset, 64u);
    answered.Notify();
  });
  pair.shared_header(0)->outputs[0].offset = 1 << 30;
  pair.shared_header(0)->code = 77;
  pair.PushCompletion(uint64_t{1} << 32);
  answered.WaitForNotification();
}

TEST(SlotRingClientTest, ManyThreadsShareTheRing) {
  RingPair pair = RingPair::Make({4, 4096});
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> good{0};
  std::thread worker([&] { pair.ServeDoubling(kThreads * kEach); });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        auto slot = pair.client->AcquireUntil(absl::InfiniteFuture());
        const float value = static_cast<float>(t * kEach + i);
        FillRequest(&*slot, value);
        pair.client->Submit(*std::move(slot),
                            [&good, value](absl::Status status, Slot slot) {
                              float result = 0;
                              std::memcpy(&result, slot.output(0).data(), 4);
                              good += status.ok() && result == 2 * value;
                            });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  worker.join();
  pair.client->FailAll(absl::UnavailableError("end"));
  EXPECT_EQ(good.load(), kThreads * kEach);
}

}  // namespace
}  // namespace gpupool::server
