#include "engine/graph/window.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(WindowAxisTest, CountsWindowsThatFitThePaddedInput) {
  WindowAxis axis{.input = 7, .kernel = 3, .stride = 2};
  EXPECT_EQ(axis.output(), 3);
  axis.begin = 1;
  EXPECT_EQ(axis.output(), 3);
  axis.end = 1;
  EXPECT_EQ(axis.output(), 4);
  axis.dilation = 2;
  EXPECT_EQ(axis.reach(), 5);
  EXPECT_EQ(axis.output(), 3);
}

TEST(WindowAxisTest, CeilModeAddsAWindowUnlessItStartsBehindTheInput) {
  WindowAxis axis{.input = 8, .kernel = 3, .stride = 2, .ceil_mode = true};
  EXPECT_EQ(axis.output(), 4);
  axis = {.input = 6, .kernel = 3, .stride = 3, .end = 2, .ceil_mode = true};
  EXPECT_EQ(axis.output(), 2);
}

TEST(WindowTest, ImagesHaveOneCellOfDepth) {
  const Window window = WindowOf(Conv2dAttributes{.stride = {2, 3}},
                                 Shape{1, 1, 5, 7}, Shape{1, 1, 1, 4});
  EXPECT_EQ(window[0].input, 1);
  EXPECT_EQ(window[0].output(), 1);
  EXPECT_EQ(window[1].output(), 3);
  EXPECT_EQ(window[2].output(), 2);
  EXPECT_EQ(KernelCells(window), 4);
  EXPECT_EQ(OutputCells(window), 6);
}

TEST(WindowTest, VolumesHaveTheDepthOfTheirExtents) {
  const Pool2dAttributes pool{.kernel = {1, 1, 2},
                              .stride = {1, 1, 2},
                              .padding = {{0, 0, 1}, {0, 0, 1}},
                              .dilation = {1, 1, 1}};
  const Window window = WindowOf(pool, Shape{1, 1, 4, 2, 2});
  EXPECT_EQ(window[0].output(), 3);
  EXPECT_EQ(KernelCells(window), 2);
  // Output cell [1, 1, 0] begins at depth 1.
  EXPECT_EQ(InputCell(window, 6, 0), 6);
  EXPECT_EQ(InputCell(window, 6, 1), 10);
}

TEST(WindowTest, PaddingHasNoCell) {
  const Pool2dAttributes pool{.kernel = {1, 2}, .padding = {{0, 1}, {0, 1}}};
  const Window window = WindowOf(pool, Shape{1, 1, 1, 2});
  EXPECT_EQ(InputCell(window, 0, 0), -1);
  EXPECT_EQ(InputCell(window, 0, 1), 0);
  EXPECT_EQ(InputCell(window, 2, 0), 1);
  EXPECT_EQ(InputCell(window, 2, 1), -1);
}

}  // namespace
}  // namespace gpupool::engine
