#include "engine/collective/abort_switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "engine/collective/gloo_collective.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AbortSwitchTest, TheFirstReasonIsToldOnceToWhoListens) {
  AbortSwitch abort;
  std::vector<std::string> heard;
  const auto listen = [&](absl::string_view reason) {
    heard.push_back(std::string(reason));
  };
  abort.Add(listen);
  const uint64_t gone = abort.Add(listen);
  abort.Remove(gone);
  EXPECT_TRUE(abort.status().ok());
  abort.Abort("cancelled");
  abort.Abort("again");
  EXPECT_THAT(heard, ElementsAre("cancelled"));
  EXPECT_TRUE(absl::IsAborted(abort.status()));
  EXPECT_THAT(std::string(abort.status().message()), HasSubstr("cancelled"));
}

TEST(AbortSwitchTest, WhoComesLateIsToldAtOnce) {
  AbortSwitch abort;
  abort.Abort("too late");
  std::string heard;
  abort.Add([&](absl::string_view reason) { heard = std::string(reason); });
  EXPECT_EQ(heard, "too late");
}

TEST(AbortSwitchTest, EndsAWaitForARankThatDoesNotArrive) {
  MemoryRendezvous store;
  const auto abort = std::make_shared<AbortSwitch>();
  std::thread other([&] {
    // Waits until rank 0 waits for rank 1.
    while (!store.Get("alone.present.0").ok()) std::this_thread::yield();
    abort->Abort("the job was cancelled");
  });
  const auto collective = ConnectGloo({.rank = 0,
                                       .size = 2,
                                       .group = "alone",
                                       .connect_timeout = absl::Hours(1),
                                       .abort = abort},
                                      &store);
  other.join();
  EXPECT_TRUE(absl::IsAborted(collective.status())) << collective.status();
  EXPECT_THAT(std::string(collective.status().message()),
              HasSubstr("the job was cancelled"));
}

TEST(AbortSwitchTest, EndsAnExchangeAndTellsTheOtherRanks) {
  MemoryRendezvous store;
  const auto abort = std::make_shared<AbortSwitch>();
  absl::BlockingCounter met(3);
  absl::Notification aborted;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto collective =
          ConnectGloo({.rank = rank,
                       .size = 3,
                       .group = "waiting",
                       .abort = rank == 0 ? abort : nullptr},
                      &store);
      ASSERT_TRUE(collective.ok()) << collective.status();
      ASSERT_TRUE((*collective)->Barrier().ok());
      met.DecrementCount();
      if (rank == 1) {
        // Rank 0 waits for the others, or is about to.
        met.Wait();
        abort->Abort("the job was cancelled");
      }
      if (rank != 0) aborted.WaitForNotification();
      const absl::Status status = (*collective)->Barrier();
      if (rank == 0) aborted.Notify();
      EXPECT_EQ(status.code(), rank == 0 ? absl::StatusCode::kAborted
                                         : absl::StatusCode::kUnavailable)
          << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("the job was cancelled"));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace gpupool::engine
