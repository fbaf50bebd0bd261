#include "client/cli/help_formatter.h"

#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

TEST(WrapTest, BreaksAtSpaces) {
  EXPECT_EQ(Wrap("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(Wrap("one two three", 80, 2), "one two three");
  EXPECT_EQ(Wrap("", 10, 2), "");
}

TEST(WrapTest, KeepsLongWordsAndLineEnds) {
  EXPECT_EQ(Wrap("a verylongword b", 5, 0), "a\nverylongword\nb");
  EXPECT_EQ(Wrap("a\nb", 80, 1), "a\n b");
}

}  // namespace
}  // namespace gpupool::client
