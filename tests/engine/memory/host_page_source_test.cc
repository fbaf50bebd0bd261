#include "engine/memory/host_page_source.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

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

// Returns whether the mapping that holds the address has the flag, as
// /proc/self/smaps writes it.
bool HasFlag(uint64_t address, const std::string& flag) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &begin, &end) ==
        2) {
      inside = begin <= address && address < end;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      return line.find(" " + flag + " ") != std::string::npos;
    }
  }
  return false;
}

TEST(HostPageSourceTest, MappedPagesMayBeHuge) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
    GTEST_SKIP() << "this kernel has no huge pages";
  }
  HostPageSource source;
  const auto address = source.ReserveRange(kRangeBytes);
  ASSERT_TRUE(address.ok());
  const PageRange at = {*address, source.granularity()};
  // Also after the pages were given back once.
  for (int round = 0; round < 2; ++round) {
    const auto chunk = source.CreateChunk(at.bytes);
    ASSERT_TRUE(chunk.ok());
    ASSERT_TRUE(source.Map(at, *chunk).ok());
    EXPECT_TRUE(HasFlag(at.address, "hg"));
    ASSERT_TRUE(source.Unmap(at).ok());
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
