#include "client/text/suggest.h"

#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

TEST(EditDistanceTest, CountsSingleLetterEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kernel", "kernal"), 1);
  EXPECT_EQ(EditDistance("relu", "rleu"), 1) << "a swap counts once";
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(NearestTest, FindsATypingErrorInAnyCase) {
  EXPECT_EQ(Nearest("filtres", {"kernel", "filters"}), "filters");
  EXPECT_EQ(Nearest("RELU", {"gelu", "relu"}), "relu");
}

TEST(NearestTest, AcceptsAnAbbreviation) {
  EXPECT_EQ(Nearest("conv", {"dense", "conv2d"}), "conv2d");
}

TEST(NearestTest, FindsNothingForAnotherWord) {
  EXPECT_EQ(Nearest("banana", {"dense", "conv2d"}), "");
  EXPECT_EQ(Nearest("", {"dense"}), "");
  EXPECT_EQ(Nearest(std::string(100'000, 'x'), {"dense"}), "");
}

TEST(DidYouMeanTest, IsEmptyWithoutASuggestion) {
  EXPECT_EQ(DidYouMean("banana", {"dense"}), "");
  EXPECT_EQ(DidYouMean("dens", {"dense"}), "; did you mean 'dense'?");
}

}  // namespace
}  // namespace gpupool::client
