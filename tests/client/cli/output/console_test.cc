#include "client/cli/output/console.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace gpupool::client {
namespace {

TEST(PaintTest, AddsSequencesOnlyWithColor) {
  EXPECT_EQ(Paint({.color = false}, Style::kRed, "x"), "x");
  EXPECT_EQ(Paint({.color = true}, Style::kRed, "x"), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(Paint({.color = true}, Style::kPlain, "x"), "x");
  EXPECT_EQ(Paint({.color = true}, Style::kBold, ""), "");
}

TEST(ConsoleTest, HasNoColorWhereTheUserSaysSo) {
  setenv("NO_COLOR", "1", 1);
  const Console console = Console::Standard();
  unsetenv("NO_COLOR");
  EXPECT_FALSE(console.out.color);
  EXPECT_FALSE(console.err.color);
  EXPECT_GT(console.out.width, 0);
}

}  // namespace
}  // namespace gpupool::client
