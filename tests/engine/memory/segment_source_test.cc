#include "engine/memory/segment_source.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

TEST(HostSegmentSourceTest, GivesAlignedZeroedMemory) {
  HostSegmentSource source;
  auto address = source.Allocate(1 << 20);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*address) % kAlignmentBytes, 0u);
  EXPECT_EQ(static_cast<char*>(*address)[12345], 0);
  std::memset(*address, 1, 1 << 20);
  source.Free(*address, 1 << 20);
}

TEST(HostSegmentSourceTest, RefusesWhatTheHostCannotGive) {
  HostSegmentSource source;
  EXPECT_EQ(source.Allocate(uint64_t{1} << 62).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace gpupool::engine
