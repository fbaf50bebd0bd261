#include "engine/base/counted.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(CountedTest, OneHasNoEnding) {
  EXPECT_EQ(Counted(0, "device"), "0 devices");
  EXPECT_EQ(Counted(1, "device"), "1 device");
  EXPECT_EQ(Counted(2, "device"), "2 devices");
}

}  // namespace
}  // namespace gpupool::engine
