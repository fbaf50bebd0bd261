#include "engine/data/synthetic/figure.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(FigureTest, EachHasItsOwnPoints) {
  const Point corner{0.9, 0.9}, diagonal{0.6, 0.6}, top{0, -0.9};
  const Point side{0.9, 0}, left{-0.5, -0.5};
  EXPECT_FALSE(IsInside(0, corner));
  EXPECT_TRUE(IsInside(0, diagonal));
  EXPECT_TRUE(IsInside(1, corner));
  EXPECT_TRUE(IsInside(2, top));
  EXPECT_TRUE(IsInside(2, {0.9, 0.95}));
  EXPECT_FALSE(IsInside(2, left));
  EXPECT_FALSE(IsInside(2, side));
  EXPECT_TRUE(IsInside(3, side));
  EXPECT_TRUE(IsInside(3, top));
  EXPECT_FALSE(IsInside(3, diagonal));
}

TEST(FigureTest, NothingReachesBeyondTheSquare) {
  for (uint32_t figure = 0; figure < kFigures; ++figure) {
    EXPECT_TRUE(IsInside(figure, {0, 0.2})) << figure;
    EXPECT_FALSE(IsInside(figure, {1.1, 0})) << figure;
    EXPECT_FALSE(IsInside(figure, {0, -1.1})) << figure;
  }
}

}  // namespace
}  // namespace gpupool::engine
