#include "engine/train/input/mask_check.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/graph/builder.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// A model whose input 'ids' selects from a table of 6 entries, and whose input
// 'places' selects from one of 3.
class MaskCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GraphBuilder builder(&model_.graph);
    Select(builder, "ids", DType::kInt32, 6);
    Select(builder, "places", DType::kInt64, 3);
  }

  void Select(GraphBuilder& builder, const std::string& input, DType dtype,
              int64_t entries) {
    const ValueId tokens = *builder.Input(input, {dtype, {4, 8}});
    model_.inputs.push_back(
        {.name = input, .value = tokens, .dtype = dtype, .shape = {4, 8}});
    const ValueId table = *builder.Persistent(absl::StrCat(input, ".weight"),
                                              {DType::kFloat32, {entries, 2}},
                                              MemoryClass::kWeight);
    const ValueId wide =
        *builder.EmitOne(Op::kCast, {tokens}, CastAttributes{DType::kInt64});
    ASSERT_TRUE(
        builder.EmitOne(Op::kGather, {table, wide}, AxisAttributes{0}).ok());
  }

  absl::Status Check(const std::string& input, const std::string& mask) const {
    v1::DataSpec data;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("transforms { input: '", input, "' random_mask { ", mask,
                     " } }"),
        &data));
    return CheckMaskTokens(data, model_);
  }

  ModelGraph model_;
};

TEST_F(MaskCheckTest, TokensMayBeAllEntriesOfTheTable) {
  EXPECT_TRUE(Check("ids", "mask_token: 5 vocabulary: 6").ok());
  EXPECT_TRUE(Check("places", "mask_token: 2 vocabulary: 3").ok());
}

TEST_F(MaskCheckTest, AMaskTokenBeyondTheTableIsRefused) {
  const absl::Status status = Check("ids", "mask_token: 6 vocabulary: 6");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "data.transforms[0].random_mask: mask_token is 6, but the model's "
            "'ids.weight' has 6 entries, for the tokens 0 to 5; set mask_token "
            "to one of them, or give it 7 entries");
  EXPECT_THAT(
      std::string(Check("places", "mask_token: 3 vocabulary: 3").message()),
      HasSubstr("'places.weight' has 3 entries"));
}

TEST_F(MaskCheckTest, AVocabularyBeyondTheTableIsRefused) {
  const absl::Status status = Check("ids", "mask_token: 5 vocabulary: 7");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("vocabulary is 7, but the model's 'ids.weight' has 6 "
                        "entries; set vocabulary to at most 6"));
}

TEST_F(MaskCheckTest, WhatIsNotUsedMayBeOfAnySize) {
  EXPECT_TRUE(Check("ids", "mask_token: 6 vocabulary: 6 mask_share: 0").ok());
  EXPECT_TRUE(Check("ids", "mask_token: 5 vocabulary: 7 random_share: 0").ok());
}

TEST_F(MaskCheckTest, AnInputThatSelectsNothingTakesAllTokens) {
  GraphBuilder builder(&model_.graph);
  const ValueId kinds = *builder.Input("kinds", {DType::kInt64, {4, 8}});
  model_.inputs.push_back({.name = "kinds", .value = kinds});
  EXPECT_TRUE(Check("kinds", "mask_token: 99 vocabulary: 100").ok());
}

}  // namespace
}  // namespace gpupool::engine
