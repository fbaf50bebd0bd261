#include "engine/train/input/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "absl/synchronization/notification.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kBatches = 200;

// Returns a maker whose batches hold their number and their row, which is 10
// times the number.
BatchMaker Numbers() {
  return {.rows =
              [next = uint32_t{0}]() mutable {
                return std::vector<uint32_t>{10 * next++};
              },
          .fill =
              [](uint64_t number, absl::Span<const uint32_t> rows,
                 absl::Span<std::byte> memory) {
                std::memcpy(memory.data(), &number, sizeof(number));
                std::memcpy(memory.data() + sizeof(number), rows.data(),
                            sizeof(uint32_t));
                return absl::OkStatus();
              }};
}

// Expects the batch of Numbers().
void ExpectTaken(BatchLoader& loader, uint64_t number) {
  uint64_t found = 0;
  uint32_t row = 0;
  const absl::Status taken =
      loader.Take(number, [&](absl::Span<const std::byte> memory) {
        ASSERT_EQ(memory.size(), 12u);
        std::memcpy(&found, memory.data(), sizeof(found));
        std::memcpy(&row, memory.data() + sizeof(found), sizeof(row));
      });
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(found, number);
  EXPECT_EQ(row, 10 * number);
}

TEST(BatchLoaderTest, BatchesAreTakenInOrderWhoeverMakesThem) {
  for (const uint32_t workers : {1u, 2u, 5u}) {
    for (const uint32_t prefetch : {1u, 3u, 16u}) {
      auto loader = BatchLoader::Start({.workers = workers,
                                        .prefetch = prefetch,
                                        .batch_bytes = 12,
                                        .end = kBatches},
                                       Numbers());
      ASSERT_TRUE(loader.ok()) << loader.status();
      for (uint64_t i = 0; i < kBatches; ++i) ExpectTaken(**loader, i);
    }
  }
}

TEST(BatchLoaderTest, AtMostSoManyBatchesAreAhead) {
  std::atomic<uint64_t> taken = 0;
  std::atomic<bool> too_many = false;
  BatchMaker maker = Numbers();
  maker.fill = [&, fill = maker.fill](uint64_t number, auto rows, auto memory) {
    // `taken` is counted a little late, after its batch is free.
    if (number > taken + 3) too_many = true;
    return fill(number, rows, memory);
  };
  auto loader = BatchLoader::Start(
      {.workers = 4, .prefetch = 3, .batch_bytes = 12, .end = kBatches}, maker);
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t i = 0; i < kBatches; ++i) {
    ExpectTaken(**loader, i);
    ++taken;
  }
  EXPECT_FALSE(too_many);
}

TEST(BatchLoaderTest, BeginsAtAnyBatch) {
  BatchMaker maker = Numbers();
  for (int i = 0; i < 7; ++i) maker.rows();
  auto loader = BatchLoader::Start({.workers = 2,
                                    .prefetch = 4,
                                    .batch_bytes = 12,
                                    .first = 7,
                                    .end = kBatches},
                                   maker);
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t i = 7; i < kBatches; ++i) ExpectTaken(**loader, i);
}

TEST(BatchLoaderTest, AnErrorReachesTheStepOfItsBatch) {
  BatchMaker maker = Numbers();
  maker.fill = [fill = maker.fill](uint64_t number, auto rows, auto memory) {
    return number == 5 ? absl::DataLossError("cut off")
                       : fill(number, rows, memory);
  };
  auto loader = BatchLoader::Start(
      {.workers = 3, .prefetch = 8, .batch_bytes = 12, .end = kBatches}, maker);
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t i = 0; i < 5; ++i) ExpectTaken(**loader, i);
  EXPECT_EQ((*loader)->Take(
                5, [](auto) { ADD_FAILURE() << "a batch that was not made"; }),
            absl::DataLossError("cut off"));
  ExpectTaken(**loader, 6);
}

TEST(BatchLoaderTest, StopsWithBatchesThatNobodyTakes) {
  absl::Notification made;
  BatchMaker maker = Numbers();
  maker.fill = [&](uint64_t number, auto, auto) {
    if (number == 1) made.Notify();
    return absl::OkStatus();
  };
  auto loader = BatchLoader::Start(
      {.workers = 2, .prefetch = 2, .batch_bytes = 12, .end = kBatches}, maker);
  ASSERT_TRUE(loader.ok()) << loader.status();
  made.WaitForNotification();
  loader->reset();
}

TEST(BatchLoaderTest, EndsByItselfAfterTheLastBatch) {
  auto none = BatchLoader::Start(
      {.workers = 2, .prefetch = 2, .batch_bytes = 12, .first = 9, .end = 9},
      Numbers());
  ASSERT_TRUE(none.ok()) << none.status();
  auto one = BatchLoader::Start(
      {.workers = 2, .prefetch = 2, .batch_bytes = 12, .end = 1}, Numbers());
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectTaken(**one, 0);
}

}  // namespace
}  // namespace gpupool::engine
