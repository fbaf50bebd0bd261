// The allocator over CUDA's virtual memory, and copies.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/gpu/gpu.h"

namespace gpupool::engine::testing {
namespace {

class MemoryOnGpu : public GpuTest {
 protected:
  // Returns bytes that distinguish a block from others.
  static std::vector<std::byte> PatternOf(uint32_t seed, uint64_t bytes) {
    std::mt19937 random(seed);
    std::vector<std::byte> pattern(bytes);
    for (std::byte& b : pattern) b = static_cast<std::byte>(random());
    return pattern;
  }
  void Fill(const Allocation& block, const std::vector<std::byte>& pattern) {
    ASSERT_TRUE(gpu().transfer().CopyToDevice(block.data(), pattern).ok());
    ASSERT_TRUE(gpu().transfer().Synchronize().ok());
  }
  std::vector<std::byte> Read(const std::byte* from, uint64_t bytes) {
    std::vector<std::byte> read(bytes);
    EXPECT_TRUE(
        gpu().transfer().CopyFromDevice(absl::MakeSpan(read), from).ok());
    EXPECT_TRUE(gpu().transfer().Synchronize().ok());
    return read;
  }
};

TEST_F(MemoryOnGpu, BlocksKeepTheirBytesWhileOthersComeAndGo) {
  struct Held {
    Allocation block;
    std::vector<std::byte> pattern;
  };
  const uint32_t seed = 7;
  std::mt19937 random(seed);
  std::vector<Held> held;
  for (uint32_t i = 0; i < 400; ++i) {
    if (held.size() > 24 || (!held.empty() && random() % 3 == 0)) {
      const size_t which = random() % held.size();
      EXPECT_EQ(Read(held[which].block.data(), held[which].pattern.size()),
                held[which].pattern)
          << "seed " << seed << ", step " << i;
      held[which] = std::move(held.back());
      held.pop_back();
      continue;
    }
    const uint64_t bytes = 1 + random() % (uint64_t{1} << (8 + random() % 16));
    auto block = gpu().allocator().Allocate(bytes, {"test", "blocks"});
    ASSERT_TRUE(block.ok()) << block.status();
    held.push_back({*std::move(block), PatternOf(i, bytes)});
    Fill(held.back().block, held.back().pattern);
    if (i % 50 == 0) gpu().allocator().EmptyCache();
  }
}

TEST_F(MemoryOnGpu, ABlockOfManyChunksIsWhole) {
  const uint64_t bytes = (uint64_t{96} << 20) + 12345;
  auto block = gpu().allocator().Allocate(bytes, {"test", "large"});
  ASSERT_TRUE(block.ok()) << block.status();
  const auto pattern = PatternOf(1, bytes);
  Fill(*block, pattern);
  EXPECT_EQ(Read(block->data(), bytes), pattern);
}

TEST_F(MemoryOnGpu, GivenBackMemoryIsGone) {
  { auto block = gpu().allocator().Allocate(uint64_t{64} << 20, {"t", "x"}); }
  EXPECT_GE(gpu().allocator().EmptyCache(), uint64_t{64} << 20);
  EXPECT_EQ(gpu().allocator().EmptyCache(), 0u);
}

TEST_F(MemoryOnGpu, MoreThanTheLimitIsRefusedWithTheNumbers) {
  const auto block =
      gpu().allocator().Allocate(uint64_t{1} << 42, {"test", "too much"});
  EXPECT_EQ(block.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MemoryOnGpu, CopiesOnTheDeviceAndClearsAreInOrder) {
  auto from = *gpu().allocator().Allocate(4096, {"test", "from"});
  auto to = *gpu().allocator().Allocate(4096, {"test", "to"});
  const auto pattern = PatternOf(2, 4096);
  Transfer& transfer = gpu().transfer();
  ASSERT_TRUE(transfer.CopyToDevice(from.data(), pattern).ok());
  ASSERT_TRUE(transfer.CopyOnDevice(to.data(), from.data(), 4096).ok());
  ASSERT_TRUE(transfer.Clear(from.data(), 4096).ok());
  EXPECT_EQ(Read(to.data(), 4096), pattern);
  EXPECT_EQ(Read(from.data(), 4096), std::vector<std::byte>(4096));
}

TEST_F(MemoryOnGpu, StagingIsAlignedAndRoundTrips) {
  auto staging = gpu().transfer().AllocateStaging(1000);
  ASSERT_TRUE(staging.ok()) << staging.status();
  std::byte* data = (*staging)->data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  const auto pattern = PatternOf(3, 1000);
  std::memcpy(data, pattern.data(), 1000);
  auto block = *gpu().allocator().Allocate(1000, {"test", "staged"});
  ASSERT_TRUE(gpu().transfer().CopyToDevice(block.data(), {data, 1000}).ok());
  EXPECT_EQ(Read(block.data(), 1000), pattern);
}

TEST_F(MemoryOnGpu, FactsAndReadingsTellWhatTheDeviceIs) {
  const DeviceFacts& facts = gpu().device().facts();
  EXPECT_NE(facts.name, "");
  EXPECT_GT(facts.total_bytes, uint64_t{1} << 30);
  EXPECT_GT(facts.multiprocessors, 0u);
  EXPECT_GE(facts.threads_per_multiprocessor, 1024u);
  const auto readings = gpu().device().Read();
  if (readings.ok()) {
    EXPECT_GT(readings->used_bytes.value_or(1), 0u);
  } else {
    EXPECT_EQ(readings.status().code(), absl::StatusCode::kUnimplemented);
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
