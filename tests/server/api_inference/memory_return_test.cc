#include "server/api/inference/memory_return.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMany = QuietTime::kWorthBytes;
constexpr uint64_t kLeast = 30 << 20;

TEST(QuietTimeTest, KeptMemoryIsCountedWhenTheRequestsAreOver) {
  QuietTime quiet;
  EXPECT_TRUE(quiet.ShouldCount(0, 0));
  EXPECT_FALSE(quiet.ShouldCount(kMany, kMany)) << "in flight";
  EXPECT_FALSE(quiet.ShouldCount(0, 2 * kMany)) << "a moment ago";
  EXPECT_TRUE(quiet.ShouldCount(1000, 2 * kMany + 1000)) << "hardly any";
}

TEST(QuietTimeTest, KeptMemoryIsSeldomCountedWhileNothingComes) {
  QuietTime quiet;
  int counts = 0;
  for (int look = 0; look < 10 * QuietTime::kBetweenCounts; ++look) {
    counts += quiet.ShouldCount(0, 0) ? 1 : 0;
  }
  EXPECT_EQ(counts, 10);
}

TEST(QuietTimeTest, MemoryIsGivenBackOnce) {
  QuietTime quiet;
  EXPECT_FALSE(quiet.IsDue(kLeast));
  EXPECT_FALSE(quiet.IsDue(kLeast + kMany - 1)) << "not worth it";
  EXPECT_TRUE(quiet.IsDue(kLeast + kMany));
  quiet.GaveBack(kLeast + 1);
  EXPECT_FALSE(quiet.IsDue(kLeast + kMany)) << "not yet again";
  EXPECT_TRUE(quiet.IsDue(kLeast + kMany + 1));
}

TEST(QuietTimeTest, MemoryThatCannotBeGivenIsNotAskedForAgain) {
  QuietTime quiet;
  EXPECT_FALSE(quiet.IsDue(kLeast));
  EXPECT_TRUE(quiet.IsDue(kLeast + kMany));
  quiet.GaveBack(kLeast + kMany);
  EXPECT_FALSE(quiet.IsDue(kLeast + kMany));
  EXPECT_FALSE(quiet.IsDue(kLeast)) << "now it was given";
  EXPECT_TRUE(quiet.IsDue(kLeast + kMany));
}

TEST(MemoryReturnTest, LooksUntilItIsDestroyed) {
  const BytesInFlight gate(2 * kMany);
  std::atomic<uint64_t> kept{kLeast};
  std::atomic<int> looks{0};
  std::atomic<int> returns{0};
  {
    const MemoryReturn memory_return(&gate, {.interval = absl::Milliseconds(1),
                                             .give_back =
                                                 [&] {
                                                   kept = kLeast;
                                                   ++returns;
                                                 },
                                             .kept =
                                                 [&] {
                                                   ++looks;
                                                   return kept.load();
                                                 }});
    EXPECT_TRUE(WaitUntil([&] { return looks > 0; }));
    kept = kLeast + kMany;
    EXPECT_TRUE(WaitUntil([&] { return returns == 1; }));
  }
  EXPECT_EQ(returns, 1);
}

TEST(MemoryReturnTest, ByDefaultFreedMemoryGoesBackToTheSystem) {
  const BytesInFlight gate(kMany);
  const MemoryReturn memory_return(&gate, {.interval = absl::Milliseconds(1)});
  // Small pieces, which the allocator keeps when the last of them stays.
  std::vector<std::unique_ptr<std::string>> pieces;
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    uint64_t size = 0, pages = 0;
    statm >> size >> pages;
    return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  };
  for (uint64_t bytes = 0; bytes < 4 * kMany; bytes += 4096) {
    pieces.push_back(std::make_unique<std::string>(4096, 'x'));
  }
  const uint64_t full = resident();
  pieces.erase(pieces.begin(), pieces.end() - 1);
  EXPECT_TRUE(WaitUntil([&] { return resident() < full - 3 * kMany; }));
}

}  // namespace
}  // namespace gpupool::server
