#include "engine/collective/gloo_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/philox.h"

namespace gpupool::engine {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Ranks as threads of this process, over real connections.
class GlooCollectiveTest : public ::testing::Test {
 protected:
  using Body = std::function<void(Collective&)>;

  // Runs `body` on every rank of a new group. Returns false if a rank did not
  // connect.
  void RunRanks(int size, const Body& body,
                absl::Duration timeout = absl::Seconds(30)) {
    const std::string group = absl::StrCat("group-", ++groups_);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([=, this, &body] {
        auto collective = ConnectGloo(
            {.rank = rank, .size = size, .group = group, .timeout = timeout},
            &store_);
        ASSERT_TRUE(collective.ok()) << collective.status();
        body(**collective);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  // Returns the contribution of rank `rank`. Sums depend on the order of
  // additions.
  static std::vector<float> Contribution(int rank, size_t count) {
    Philox random(kSeed, static_cast<uint64_t>(rank));
    std::vector<float> values(count);
    for (float& value : values) {
      value = (random.NextFloat() - 0.5f) * (rank == 1 ? 1e4f : 1.0f);
    }
    return values;
  }

  static std::vector<float> SumInOrder(int ranks, size_t count) {
    std::vector<float> sum = Contribution(0, count);
    for (int rank = 1; rank < ranks; ++rank) {
      const std::vector<float> values = Contribution(rank, count);
      for (size_t i = 0; i < count; ++i) sum[i] += values[i];
    }
    return sum;
  }

  static constexpr uint64_t kSeed = 17;
  MemoryRendezvous store_;
  int groups_ = 0;
};

TEST_F(GlooCollectiveTest, SumsAreTheSumsInTheOrderOfTheRanksToTheBit) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  // The last size needs two segments.
  const std::vector<size_t> counts = {0, 1, 2, 7, 1000, (1 << 20) + 33};
  for (const int ranks : {1, 2, 3, 4}) {
    RunRanks(ranks, [&](Collective& collective) {
      for (const size_t count : counts) {
        std::vector<float> values = Contribution(collective.rank(), count);
        const absl::Status status =
            collective.AllReduce(absl::MakeSpan(values));
        ASSERT_TRUE(status.ok()) << status;
        const std::vector<float> want = SumInOrder(ranks, count);
        ASSERT_EQ(
            std::memcmp(values.data(), want.data(), count * sizeof(float)), 0)
            << ranks << " ranks, " << count << " elements";
      }
    });
  }
}

TEST_F(GlooCollectiveTest, StartedSumsRunInOrderAndAreAwaitedInAny) {
  RunRanks(3, [&](Collective& collective) {
    std::vector<std::vector<float>> values(20);
    std::vector<CollectiveTicket> tickets;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].assign(100 * i, static_cast<float>(i));
      tickets.push_back(*collective.StartAllReduce(absl::MakeSpan(values[i])));
    }
    for (size_t i = values.size(); i-- > 0;) {
      ASSERT_TRUE(collective.Wait(tickets[i]).ok());
      EXPECT_THAT(values[i], Each(3.0f * static_cast<float>(i)));
    }
    EXPECT_TRUE(absl::IsInvalidArgument(collective.Wait(999)));
  });
}

TEST_F(GlooCollectiveTest, BroadcastAndGatherAndBarrier) {
  RunRanks(3, [](Collective& collective) {
    const auto rank = static_cast<uint8_t>(collective.rank());
    for (int root = 0; root < 3; ++root) {
      std::vector<std::byte> bytes(1000, std::byte{rank});
      ASSERT_TRUE(collective.Broadcast(absl::MakeSpan(bytes), root).ok());
      EXPECT_THAT(bytes, Each(std::byte(root)));
    }
    std::vector<std::byte> mine(5, std::byte(rank + 1)), all(15);
    ASSERT_TRUE(collective.AllGather(mine, absl::MakeSpan(all)).ok());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i], std::byte(i / 5 + 1));
    }
    EXPECT_TRUE(collective.Barrier().ok());
    EXPECT_TRUE(absl::IsInvalidArgument(
        collective.AllGather(mine, absl::MakeSpan(all).first(14))));
    EXPECT_TRUE(
        absl::IsInvalidArgument(collective.Broadcast(absl::MakeSpan(all), 3)));
    EXPECT_TRUE(collective.Barrier().ok());
  });
}

TEST_F(GlooCollectiveTest, NoRankLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> come{0};
  RunRanks(4, [&](Collective& collective) {
    for (int round = 1; round <= 20; ++round) {
      ++come;
      ASSERT_TRUE(collective.Barrier().ok());
      EXPECT_GE(come.load(), 4 * round);
      ASSERT_TRUE(collective.Barrier().ok());
    }
  });
}

TEST_F(GlooCollectiveTest, AClosedRankIsNamedByAllOthers) {
  RunRanks(3, [](Collective& collective) {
    ASSERT_TRUE(collective.Barrier().ok());
    if (collective.rank() == 1) return;
    std::vector<float> values(1000, 1);
    const absl::Status status = collective.AllReduce(absl::MakeSpan(values));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of 3"));
    EXPECT_EQ(collective.Barrier(), status);
  });
}

TEST_F(GlooCollectiveTest, ARankThatDoesNothingIsNamedAfterTheTimeout) {
  absl::Notification others_done[2];
  RunRanks(
      3,
      [&](Collective& collective) {
        if (collective.rank() == 2) {
          for (auto& done : others_done) done.WaitForNotification();
          return;
        }
        std::vector<float> values(1000, 1);
        const absl::Status status =
            collective.AllReduce(absl::MakeSpan(values));
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 of 3"));
        others_done[collective.rank()].Notify();
      },
      absl::Milliseconds(300));
}

TEST_F(GlooCollectiveTest, OtherSizesAreFoundOutAndTouchNoOtherMemory) {
  RunRanks(
      2,
      [&](Collective& collective) {
        const size_t count = collective.rank() == 0 ? 64 : 4096;
        std::vector<float> values(count, 1);
        const absl::Status status =
            collective.AllReduce(absl::MakeSpan(values));
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_THAT(values, Each(1.0f));
      },
      absl::Milliseconds(300));
}

TEST_F(GlooCollectiveTest, AbortEndsAWaitingCallHereAndThere) {
  absl::Notification aborted;
  RunRanks(2, [&](Collective& collective) {
    std::vector<float> values(1000, 1);
    if (collective.rank() == 1) {
      ASSERT_TRUE(collective.Barrier().ok());
      aborted.WaitForNotification();
      const absl::Status status = collective.AllReduce(absl::MakeSpan(values));
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 0: abort: the job was cancelled"));
      return;
    }
    ASSERT_TRUE(collective.Barrier().ok());
    const auto ticket = collective.StartAllReduce(absl::MakeSpan(values));
    ASSERT_TRUE(ticket.ok());
    std::thread([&] { collective.Abort("the job was cancelled"); }).join();
    const absl::Status status = collective.Wait(*ticket);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    aborted.Notify();
    EXPECT_TRUE(absl::IsAborted(collective.Barrier()));
  });
}

TEST_F(GlooCollectiveTest, ARankThatNeverArrivesIsNamed) {
  const auto collective =
      ConnectGloo({.rank = 0,
                   .size = 3,
                   .group = "lonely",
                   .connect_timeout = absl::Milliseconds(50)},
                  &store_);
  EXPECT_TRUE(absl::IsUnavailable(collective.status()));
  EXPECT_THAT(std::string(collective.status().message()),
              HasSubstr("rank 1 of 3 did not arrive"));
}

TEST_F(GlooCollectiveTest, RefusesWrongPlacesAndARankThatIsTaken) {
  const auto code = [&](GlooOptions options) {
    options.connect_timeout = absl::Milliseconds(50);
    return ConnectGloo(options, &store_).status().code();
  };
  using Code = absl::StatusCode;
  EXPECT_EQ(code({.rank = 2, .size = 2, .group = "g"}), Code::kInvalidArgument);
  EXPECT_EQ(code({.rank = -1, .size = 2, .group = "g"}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({.rank = 0, .size = 1, .group = ""}), Code::kInvalidArgument);
  EXPECT_EQ(code({.rank = 0, .size = 1, .group = "a/b"}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({.rank = 0,
                  .size = 1,
                  .group = "g",
                  .timeout = absl::InfiniteDuration()}),
            Code::kInvalidArgument);
  EXPECT_EQ(code({.rank = 1, .size = 2, .group = "g"}), Code::kUnavailable);
  EXPECT_EQ(code({.rank = 1, .size = 2, .group = "g"}), Code::kAlreadyExists);
  EXPECT_EQ(code({.rank = 0, .size = 3, .group = "g"}),
            Code::kFailedPrecondition);
}

TEST_F(GlooCollectiveTest, AnInterfaceThatIsNotThereIsAnErrorWithItsName) {
  std::thread other([&] {
    EXPECT_FALSE(ConnectGloo({.rank = 1,
                              .size = 2,
                              .group = "nic",
                              .interface = "no-such-0",
                              .connect_timeout = absl::Milliseconds(200)},
                             &store_)
                     .ok());
  });
  const auto collective =
      ConnectGloo({.rank = 0,
                   .size = 2,
                   .group = "nic",
                   .interface = "no-such-0",
                   .connect_timeout = absl::Milliseconds(200)},
                  &store_);
  other.join();
  EXPECT_TRUE(absl::IsUnavailable(collective.status()));
  EXPECT_THAT(std::string(collective.status().message()),
              HasSubstr("no-such-0"));
}

}  // namespace
}  // namespace gpupool::engine
