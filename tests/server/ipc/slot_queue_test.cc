#include "server/ipc/slot_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

class SlotQueueTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kCapacity = 8;
  alignas(64) std::byte memory_[SlotQueue::BytesFor(kCapacity)] = {};
  UniqueFd bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  UniqueFd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  SlotQueue producer_{memory_, kCapacity, bell_.get()};
  SlotQueue consumer_{memory_, kCapacity, bell_.get()};

  SlotQueueHeader* header() {
    return reinterpret_cast<SlotQueueHeader*>(memory_);
  }
  bool BellRang() {
    uint64_t count = 0;
    return ::read(bell_.get(), &count, sizeof(count)) == sizeof(count);
  }
};

TEST_F(SlotQueueTest, KeepsOrderAcrossManyRounds) {
  uint64_t next = 0;
  for (int round = 0; round < 100; ++round) {
    const int count = round % static_cast<int>(kCapacity) + 1;
    for (int i = 0; i < count; ++i) producer_.Push(next + i);
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(consumer_.Look(), SlotQueue::Ready::kEntry);
      ASSERT_EQ(consumer_.Pop(), next + i);
    }
    ASSERT_EQ(consumer_.Look(), SlotQueue::Ready::kEmpty);
    next += count;
  }
}

TEST_F(SlotQueueTest, RingsOnlyASleepingConsumer) {
  producer_.Push(1);
  EXPECT_FALSE(BellRang());
  header()->sleeping.store(1);
  producer_.Push(2);
  producer_.Push(3);
  EXPECT_TRUE(BellRang());
  EXPECT_FALSE(BellRang());
}

TEST_F(SlotQueueTest, WaitReturnsAtOnceWhenAnEntryWaits) {
  producer_.Push(1);
  consumer_.Wait(-1, absl::InfiniteDuration());
  EXPECT_EQ(consumer_.Look(), SlotQueue::Ready::kEntry);
}

TEST_F(SlotQueueTest, WaitEndsByWakeDescriptorAndByTimeout) {
  const uint64_t one = 1;
  ASSERT_EQ(::write(wake_.get(), &one, sizeof(one)), 8);
  consumer_.Wait(wake_.get(), absl::InfiniteDuration());
  const absl::Time start = absl::Now();
  consumer_.Wait(wake_.get(), absl::Milliseconds(20));  // it was drained
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
}

TEST_F(SlotQueueTest, CountAboveCapacityIsCorruptNotFollowed) {
  header()->tail.store(kCapacity + 1);
  EXPECT_EQ(consumer_.Look(), SlotQueue::Ready::kCorrupt);
  header()->tail.store(0xffffffffu);
  EXPECT_EQ(consumer_.Look(), SlotQueue::Ready::kCorrupt);
}

TEST_F(SlotQueueTest, OverwrittenHeadDoesNotMisleadTheConsumer) {
  producer_.Push(7);
  header()->head.store(12345);
  EXPECT_EQ(consumer_.Pop(), 7u);
  EXPECT_EQ(consumer_.Look(), SlotQueue::Ready::kEmpty);
}

TEST_F(SlotQueueTest, NoWakeUpIsLostBetweenTwoThreads) {
  constexpr uint64_t kCount = 100000;
  std::thread thread([this] {
    for (uint64_t i = 0; i < kCount; ++i) {
      while (header()->tail.load() - header()->head.load() >= kCapacity) {
        std::this_thread::yield();
      }
      producer_.Push(i);
    }
  });
  for (uint64_t i = 0; i < kCount; ++i) {
    while (consumer_.Look() == SlotQueue::Ready::kEmpty) {
      consumer_.Wait(-1, absl::Seconds(30));
    }
    ASSERT_EQ(consumer_.Pop(), i);
  }
  thread.join();
}

}  // namespace
}  // namespace gpupool::server
