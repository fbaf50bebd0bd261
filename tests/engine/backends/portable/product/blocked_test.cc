// Lanes that share a column, as on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/backends/portable/product/blocked_functors.h"
#include "tests/engine/backends/portable/lane_group.h"

namespace gpupool::engine::portable {
namespace {

using ::gpupool::engine::testing::RunByLanes;

// Eleven rows are more than a tile. All numbers are exact.
TEST(BlockedMatMulFunctorTest, LanesGiveTheSumsOfOneLane) {
  constexpr int64_t kRows = 11, kColumns = 3, kBlocks = 4, kBytes = 8;
  constexpr int64_t kInner = kBlocks * kBytes * 2;
  std::vector<float> a, scales;
  std::vector<uint8_t> codes;
  for (int i = 0; i < kRows * kInner; ++i) {
    a.push_back(static_cast<float>(i % 13 - 6));
  }
  for (int i = 0; i < kColumns * kBlocks; ++i) {
    scales.push_back(i % 2 == 0 ? 0.5f : -2.0f);
  }
  for (int i = 0; i < kColumns * kBlocks * kBytes; ++i) {
    codes.push_back(static_cast<uint8_t>(37 * i));
  }
  BlockedMatMulFunctor functor;
  functor.a = a.data();
  functor.codes = codes.data();
  functor.scales = scales.data();
  functor.rows = kRows;
  functor.columns = kColumns;
  functor.inner = kInner;
  functor.blocks = kBlocks;
  functor.block_bytes = kBytes;
  std::vector<std::vector<float>> results;
  for (const int lanes : {1, 5, 64}) {
    std::vector<float>& y = results.emplace_back(kRows * kColumns);
    functor.y = y.data();
    RunByLanes(lanes, kColumns * functor.tiles(), functor);
    EXPECT_EQ(y, results[0]) << lanes;
  }
  EXPECT_NE(results[0][0], 0);
}

}  // namespace
}  // namespace gpupool::engine::portable
