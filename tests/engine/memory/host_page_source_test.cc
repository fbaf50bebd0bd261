#include "engine/memory/host_page_source.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gpupool::engine {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{64} << 20;

TEST(HostPageSourceTest, MappedPagesAreZeroedAndWritable) {
  HostPageSource source;
  const uint64_t page = source.granularity();
  const auto address = source.ReserveRange(kRangeBytes);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address % page, 0u);
  const PageRange at = {*address + page, page};
  auto* const data = reinterpret_cast<char*>(at.address);
  for (int round = 0; round < 2; ++round) {
    const auto chunk = source.CreateChunk(page);
    ASSERT_TRUE(chunk.ok());
    ASSERT_TRUE(source.Map(at, *chunk).ok());
    EXPECT_EQ(data[12345], 0);
    std::memset(data, 1, page);
    ASSERT_TRUE(source.Unmap(at).ok());
    ASSERT_TRUE(source.ReleaseChunk(*chunk).ok());
  }
  EXPECT_TRUE(source.FreeRange({*address, kRangeBytes}).ok());
}

TEST(HostPageSourceTest, RefusesMoreAddressesThanThereAre) {
  HostPageSource source;
  for (const int shift : {47, 62}) {
    EXPECT_TRUE(absl::IsResourceExhausted(
        source.ReserveRange(uint64_t{1} << shift).status()));
  }
}

TEST(HostPageSourceTest, ChunkSizesFollowTheRules) {
  const HostPageSource source;
  const auto sizes = source.chunk_sizes();
  EXPECT_EQ(sizes.back(), source.granularity());
  for (size_t i = 1; i < sizes.size(); ++i) {
    EXPECT_GT(sizes[i - 1], sizes[i]);
    EXPECT_EQ(sizes[i - 1] % sizes[i], 0u);
  }
}

using HostPageSourceDeathTest = ::testing::Test;

TEST_F(HostPageSourceDeathTest, UnmappedPagesCannotBeTouched) {
  HostPageSource source;
  const auto address = source.ReserveRange(kRangeBytes);
  ASSERT_TRUE(address.ok());
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(*address) = 1, "");
  EXPECT_TRUE(source.FreeRange({*address, kRangeBytes}).ok());
}

}  // namespace
}  // namespace gpupool::engine
