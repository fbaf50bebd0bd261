#include "engine/data/transform/token_mask.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::Each;

constexpr int64_t kMaskToken = 99;
constexpr int64_t kNotCounted = -100;
constexpr size_t kMaskedRow = 40'000;

TokenMask MaskOf(const std::string& text, uint64_t index = 0) {
  v1::Transform::RandomMask mask;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "mask_token: 99 vocabulary: 50 " + text, &mask));
  return TokenMask(mask, index);
}

// Returns tokens 60 to 69, which no random token is.
std::vector<int64_t> Tokens(size_t count) {
  std::vector<int64_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = 60 + static_cast<int64_t>(i % 10);
  }
  return tokens;
}

std::vector<int64_t> Hidden(const TokenMask& mask, const RowKey& key,
                            std::vector<int64_t> tokens) {
  mask.Hide(key, absl::MakeSpan(tokens));
  return tokens;
}

std::vector<int64_t> Labels(const TokenMask& mask, const RowKey& key,
                            const std::vector<int64_t>& tokens) {
  std::vector<int64_t> labels = tokens;
  mask.Ignore(key, tokens, kNotCounted, absl::MakeSpan(labels));
  return labels;
}

TEST(TokenMaskTest, SharesAreThoseOfBertByDefault) {
  const TokenMask mask = MaskOf("");
  const RowKey key = {1, 2, 3};
  const std::vector<int64_t> tokens = Tokens(kMaskedRow);
  const std::vector<int64_t> hidden = Hidden(mask, key, tokens);
  const std::vector<int64_t> labels = Labels(mask, key, tokens);
  int chosen = 0, masked = 0, drawn = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (labels[i] == kNotCounted) {
      ASSERT_EQ(hidden[i], tokens[i]) << "a token that is not chosen stays";
      continue;
    }
    ASSERT_EQ(labels[i], tokens[i]);
    ++chosen;
    masked += hidden[i] == kMaskToken;
    drawn += hidden[i] < 50;
    ASSERT_TRUE(hidden[i] == kMaskToken || hidden[i] == tokens[i] ||
                (hidden[i] >= 0 && hidden[i] < 50));
  }
  // More than five standard deviations, and the seed is fixed.
  EXPECT_NEAR(chosen, 6000, 400);
  EXPECT_NEAR(masked, 4800, 400);
  EXPECT_NEAR(drawn, 600, 130);
}

TEST(TokenMaskTest, SharesMayBeSet) {
  const RowKey key = {1, 2, 3};
  const std::vector<int64_t> tokens = Tokens(100);
  EXPECT_THAT(Hidden(MaskOf("p: 1 mask_share: 1 random_share: 0"), key, tokens),
              Each(kMaskToken));
  EXPECT_EQ(Hidden(MaskOf("p: 1 mask_share: 0 random_share: 0"), key, tokens),
            tokens);
  const auto drawn =
      Hidden(MaskOf("p: 1 mask_share: 0 random_share: 1"), key, tokens);
  EXPECT_LT(*std::max_element(drawn.begin(), drawn.end()), 50);
  EXPECT_GT(std::set<int64_t>(drawn.begin(), drawn.end()).size(), 20u);
}

TEST(TokenMaskTest, KeptTokensAreNeverChosen) {
  const TokenMask mask = MaskOf("p: 1 kept_tokens: [60, 65]");
  const RowKey key = {1, 2, 3};
  const std::vector<int64_t> tokens = Tokens(1000);
  const std::vector<int64_t> hidden = Hidden(mask, key, tokens);
  const std::vector<int64_t> labels = Labels(mask, key, tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool kept = tokens[i] == 60 || tokens[i] == 65;
    EXPECT_EQ(labels[i], kept ? kNotCounted : tokens[i]);
    EXPECT_TRUE(!kept || hidden[i] == tokens[i]);
  }
}

TEST(TokenMaskTest, ChoicesFollowFromTheKeyAndTheTransform) {
  const std::vector<int64_t> tokens = Tokens(200);
  const auto wanted = Hidden(MaskOf(""), {1, 2, 3}, tokens);
  EXPECT_EQ(Hidden(MaskOf(""), {1, 2, 3}, tokens), wanted);
  for (const RowKey& other : {RowKey{2, 2, 3}, RowKey{1, 3, 3}, RowKey{1, 2, 4},
                              RowKey{1, kEvaluatedEpoch, 3}}) {
    EXPECT_NE(Hidden(MaskOf(""), other, tokens), wanted);
  }
  EXPECT_NE(Hidden(MaskOf("", 1), {1, 2, 3}, tokens), wanted);
}

TEST(TokenMaskTest, BothTypesOfTokensAreHiddenAlike) {
  const TokenMask mask = MaskOf("p: 0.5");
  const std::vector<int64_t> wide = Tokens(500);
  std::vector<int32_t> narrow(wide.begin(), wide.end());
  mask.Hide({1, 2, 3}, absl::MakeSpan(narrow));
  const std::vector<int64_t> hidden = Hidden(mask, {1, 2, 3}, wide);
  EXPECT_TRUE(
      std::equal(narrow.begin(), narrow.end(), hidden.begin(), hidden.end()));
}

}  // namespace
}  // namespace gpupool::engine
