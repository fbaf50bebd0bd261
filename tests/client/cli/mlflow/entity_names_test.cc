#include "client/cli/mlflow/entity_names.h"

#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

TEST(EntityNameTest, KeepsWhatMlflowTakes) {
  EXPECT_EQ(EntityName("held_out/f1-score v1.0"), "held_out/f1-score v1.0");
}

TEST(EntityNameTest, ReplacesOtherCharacters) {
  EXPECT_EQ(EntityName("f1:macro@k=5%"), "f1_macro_k_5_");
  EXPECT_EQ(EntityName("\xC3\xA9\n"), "___");
}

TEST(EntityNameTest, IsAPathInItsNormalForm) {
  EXPECT_EQ(EntityName(""), "_");
  EXPECT_EQ(EntityName("/a//b/"), "_/a/_/b/_");
  EXPECT_EQ(EntityName("./../a..b"), "_/_/a..b");
}

TEST(EntityNameTest, IsCutAtTheLimit) {
  const std::string longest(kLongestEntityName, 'a');
  EXPECT_EQ(EntityName(longest), longest);
  EXPECT_EQ(EntityName(longest + "b"), longest);
  const std::string slashes = EntityName(std::string(300, '/'));
  EXPECT_EQ(slashes.size(), kLongestEntityName);
  EXPECT_EQ(slashes.back(), '_');
}

TEST(ParamValueTest, IsCutAtTheLimit) {
  const std::string longest(kLongestParamValue, 'a');
  EXPECT_EQ(ParamValue(""), "");
  EXPECT_EQ(ParamValue(longest), longest);
  EXPECT_EQ(ParamValue(longest + "b"),
            std::string(kLongestParamValue - 3, 'a') + "...");
}

TEST(ParamValueTest, IsNotCutWithinACharacter) {
  std::string text(kLongestParamValue - 4, 'a');
  for (int i = 0; i < 10; ++i) text += "\xE2\x82\xAC";
  EXPECT_EQ(ParamValue(text), std::string(kLongestParamValue - 4, 'a') + "...");
}

}  // namespace
}  // namespace gpupool::client
