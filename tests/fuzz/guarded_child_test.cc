#include "tests/fuzz/guarded_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace gpupool::engine::fuzz {
namespace {

using ::testing::HasSubstr;

TEST(GuardedChildTest, SaysNothingOfAChildThatEnds) {
  EXPECT_EQ(RunInChild({}, [] {}), "");
}

TEST(GuardedChildTest, NamesTheSignalOfACrash) {
  EXPECT_THAT(RunInChild({}, [] { std::abort(); }), HasSubstr("signal 6"));
}

TEST(GuardedChildTest, NamesTheExitCode) {
  EXPECT_EQ(RunInChild({}, [] { _exit(3); }), "exit code 3");
}

TEST(GuardedChildTest, EndsALoopThatUsesUpItsTimeOfTheProcessor) {
  EXPECT_THAT(RunInChild({},
                         [] {
                           AllowProcessorSeconds(1);
                           for (volatile bool on = true; on;) {
                           }
                         }),
              HasSubstr("hang"));
}

TEST(GuardedChildTest, EndsAProcessThatWaitsForNothing) {
  EXPECT_THAT(RunInChild({.wall_seconds = 1}, [] { pause(); }),
              HasSubstr("hang"));
}

TEST(GuardedChildTest, RefusesMemoryBeyondTheLimit) {
  EXPECT_NE(RunInChild({.memory_bytes = uint64_t{64} << 20},
                       [] {
                         std::vector<std::vector<char>> all;
                         for (int i = 0; i < 100; ++i) {
                           all.emplace_back(size_t{1} << 24, 'x');
                         }
                       }),
            "");
}

TEST(GuardedChildTest, SharesBytesWithItsChildren) {
  SharedBytes shared(64);
  EXPECT_EQ(RunInChild({}, [&shared] { shared.as<int>()[1] = 7; }), "");
  EXPECT_EQ(shared.as<int>()[1], 7);
}

}  // namespace
}  // namespace gpupool::engine::fuzz
