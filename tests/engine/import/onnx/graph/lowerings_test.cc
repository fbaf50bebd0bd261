#include "engine/import/onnx/graph/lowerings.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::onnx_import {
namespace {

TEST(LoweringsTest, EveryOperatorStandsOnceWithALoweringAndAFamily) {
  std::set<std::string> names;
  for (const OperatorEntry& entry : Operators()) {
    const std::string name = absl::StrCat(entry.domain, "::", entry.name);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_NE(entry.lowering, nullptr) << name;
    EXPECT_FALSE(entry.family.empty()) << name;
  }
  EXPECT_GT(names.size(), 160u);
}

TEST(LoweringsTest, FindsByDomainAndName) {
  ASSERT_NE(FindOperator("", "Conv"), nullptr);
  EXPECT_EQ(FindOperator("ai.onnx", "Conv"), FindOperator("", "Conv"));
  EXPECT_EQ(FindOperator("com.example", "Conv"), nullptr);
  EXPECT_EQ(FindOperator("", "Convolution"), nullptr);
  EXPECT_NE(FindOperator("ai.onnx.preview.training", "Adam"), nullptr);
  EXPECT_EQ(FindOperator("", "Adam"), nullptr);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
