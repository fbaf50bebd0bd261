#include "engine/base/name_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

TEST(NamePatternTest, WithoutAStarItIsTheName) {
  EXPECT_TRUE(MatchesPattern("fc.weight", "fc.weight"));
  EXPECT_FALSE(MatchesPattern("fc.weight", "fc.weigh"));
  EXPECT_FALSE(MatchesPattern("fc.weigh", "fc.weight"));
  EXPECT_FALSE(MatchesPattern("fc_weight", "fc.weight"));
  EXPECT_TRUE(MatchesPattern("", ""));
}

TEST(NamePatternTest, AStarStandsForAnyCharactersAndForNone) {
  EXPECT_TRUE(MatchesPattern("layer4.0.conv1.weight", "layer4.*"));
  EXPECT_TRUE(MatchesPattern("layer4.0.conv1.weight", "*.weight"));
  EXPECT_TRUE(MatchesPattern("layer4.0.conv1.weight", "l*4*conv*t"));
  EXPECT_TRUE(MatchesPattern("bn.running_mean", "*.running_*"));
  EXPECT_TRUE(MatchesPattern("fc", "*fc*"));
  EXPECT_TRUE(MatchesPattern("", "**"));
  EXPECT_FALSE(MatchesPattern("layer40.weight", "layer4.*"));
  EXPECT_FALSE(MatchesPattern("fc.weight", "*.bias"));
}

TEST(NamePatternTest, ManyStarsTakeNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesPattern(std::string(5000, 'a') + "b", pattern));
}

TEST(ClosestNamesTest, TheMostSimilarComeFirst) {
  const std::vector<std::string> names = {"conv1.weight", "fc.bias",
                                          "fc.weight"};
  EXPECT_EQ(ClosestNames("fc.weigt", names, 2), "'fc.weight', 'fc.bias'");
  EXPECT_EQ(ClosestNames("fc.weigt", names, 9),
            "'fc.weight', 'fc.bias', 'conv1.weight'");
  EXPECT_EQ(ClosestNames("x", {}, 3), "");
}

}  // namespace
}  // namespace gpupool::engine
