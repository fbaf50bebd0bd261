#include <gtest/gtest.h>

#include "engine/backends/cpu/product/winograd.h"

namespace gpupool::engine {
namespace {

Value Image(const Shape& shape, Layout layout = Layout::kChannelsLast) {
  Value value;
  value.dtype = DType::kFloat32;
  value.shape = shape;
  value.layout = layout;
  return value;
}

bool Suits(const Conv2dAttributes& conv, const Shape& w,
           Layout layout = Layout::kChannelsLast) {
  const Value image = Image({2, 64, 28, 28}, layout);
  return SuitsWinograd(conv, {.x = image, .w = Image(w), .y = image}, false);
}

TEST(WinogradTilesTest, SuitsDenseWindowsOf3x3WithStrideOne) {
  const Conv2dAttributes plain{.padding = {1, 1}};
  EXPECT_TRUE(Suits(plain, {64, 64, 3, 3}));
  EXPECT_FALSE(Suits(plain, {64, 64, 1, 1}));
  EXPECT_FALSE(Suits(plain, {64, 64, 3, 5}));
  EXPECT_FALSE(Suits(plain, {64, 64, 3, 3, 3}));
  EXPECT_FALSE(Suits(plain, {64, 64, 3, 3}, Layout::kRowMajor));
  EXPECT_FALSE(Suits({.stride = {2, 1}, .padding = {1, 1}}, {64, 64, 3, 3}));
  EXPECT_FALSE(Suits({.padding = {1, 1}, .dilation = {1, 2}}, {64, 64, 3, 3}));
  EXPECT_FALSE(Suits({.padding = {1, 1}, .groups = 2}, {64, 32, 3, 3}));
}

TEST(WinogradTilesTest, SuitsChannelsThatFillVectors) {
  const Conv2dAttributes plain{.padding = {1, 1}};
  EXPECT_TRUE(Suits(plain, {48, 80, 3, 3}));
  EXPECT_FALSE(Suits(plain, {40, 64, 3, 3}));
  EXPECT_FALSE(Suits(plain, {64, 63, 3, 3}));
  EXPECT_FALSE(Suits(plain, {16, 64, 3, 3}));
  EXPECT_FALSE(Suits(plain, {64, 16, 3, 3}));
}

TEST(WinogradTilesTest, SuitsManyTilesThatAreMostlyFull) {
  const auto suits = [](int64_t images, int64_t edge, bool stable) {
    const Value image = Image({images, 64, edge, edge});
    return SuitsWinograd({.padding = {1, 1}},
                         {.x = image, .w = Image({64, 64, 3, 3}), .y = image},
                         stable);
  };
  // The batch counts only while training.
  EXPECT_TRUE(suits(1, 7, true));
  EXPECT_TRUE(suits(8, 7, true));
  EXPECT_FALSE(suits(1, 4, true));
  EXPECT_FALSE(suits(32, 4, true));
  EXPECT_FALSE(suits(3, 12, false));
  EXPECT_TRUE(suits(2, 14, false));
  EXPECT_TRUE(suits(8, 7, false));
  EXPECT_TRUE(suits(32, 3, false));
  EXPECT_FALSE(suits(64, 2, false));
  EXPECT_FALSE(suits(64, 5, false));
}

TEST(WinogradTilesTest, GroupsAreOfOneSizeAndWithinTheBytes) {
  WinogradTiles tiles;
  tiles.images = 10;
  tiles.rows = 3;
  tiles.columns = 4;
  EXPECT_EQ(tiles.group(64, 1 << 20, 1), 60);  // at most 113
  EXPECT_EQ(tiles.group(64, 8 << 20, 1), 120);
  EXPECT_EQ(tiles.group(64, 8 << 20, 2), 60);
  EXPECT_EQ(tiles.group(64, 1, 1), 15);  // at least 16, except for the last
}

TEST(WinogradTilesTest, TilesCoverTheResultAndReadFromThePadding) {
  const WinogradTiles tiles =
      TilesOf(Image({3, 32, 9, 12}), Image({3, 48, 9, 13}), {1, 2});
  EXPECT_EQ(tiles.images, 3);
  EXPECT_EQ(tiles.channels, 32);
  EXPECT_EQ(tiles.height, 9);
  EXPECT_EQ(tiles.width, 12);
  EXPECT_EQ(tiles.rows, 3);
  EXPECT_EQ(tiles.columns, 4);
  EXPECT_EQ(tiles.begin_y, 1);
  EXPECT_EQ(tiles.begin_x, 2);
  EXPECT_EQ(tiles.count(), 36);
}

TEST(WinogradTilesTest, MatricesOfAllBlocksLieApart) {
  const WinogradMatrices matrices{144, 10};
  ASSERT_EQ(matrices.blocks(), 3);
  EXPECT_EQ(matrices.width(1), kWinogradBlock);
  EXPECT_EQ(matrices.width(2), 16);
  for (int64_t block = 0; block < 3; ++block) {
    const int64_t end =
        block < 2 ? matrices.offset(block + 1) : matrices.size();
    EXPECT_GE(matrices.stride(block), 10 * matrices.width(block));
    EXPECT_GE(end - matrices.offset(block),
              kWinogradFrequencies * matrices.stride(block));
  }
}

}  // namespace
}  // namespace gpupool::engine
