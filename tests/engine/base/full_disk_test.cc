#include "engine/base/full_disk.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(FullDiskTest, OnlyMarkedErrorsAreOfAFullDisk) {
  const absl::Status full = FullDiskError("checkpoint: no space");
  EXPECT_TRUE(IsFullDisk(full));
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(full.message(), "checkpoint: no space");
  EXPECT_FALSE(
      IsFullDisk(absl::ResourceExhaustedError("checkpoint: no space")));
  EXPECT_FALSE(IsFullDisk(absl::OkStatus()));
}

}  // namespace
}  // namespace gpupool::engine
