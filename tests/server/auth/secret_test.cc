#include "server/auth/secret.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "engine/base/sha256.h"
#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

TEST(SecretTest, ASecretHas32RandomBytesBehindAPrefix) {
  const auto one = NewSecret();
  const auto two = NewSecret();
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(one->size(), 47u);
  EXPECT_EQ(one->substr(0, 4), "gpk_");
  EXPECT_NE(*one, *two);
  EXPECT_TRUE(IsSecret(*one)) << *one;
}

TEST(SecretTest, OtherTextsAreNoSecrets) {
  const std::string good = "gpk_" + std::string(43, 'A');
  EXPECT_TRUE(IsSecret(good));
  for (const std::string& bad :
       {std::string(), std::string("gpk_"), good + "A",
        good.substr(0, good.size() - 1), "gpt_" + std::string(43, 'A'),
        "gpk_" + std::string(42, 'A') + "=",
        "gpk_" + std::string(42, 'A') + " ",
        "gpk_" + std::string(42, 'A') + "\xc3"}) {
    EXPECT_FALSE(IsSecret(bad)) << bad;
  }
}

TEST(SecretTest, IsKeptAsItsSha256) {
  EXPECT_EQ(DigestOf("gpk_x"), engine::Sha256Hex("gpk_x"));
}

TEST(SecretTest, ComparesAsEqualityDoes) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("xbc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "ab"));
}

// A comparison that ends early would work as well, so the source is read.
TEST(SecretTest, TheBookComparesInConstantTime) {
  std::ifstream file(SourcePath("server/auth/token_book.cc"));
  const std::string source((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(source.find("EqualInConstantTime("), std::string::npos);
  EXPECT_EQ(source.find("secret_sha256() =="), std::string::npos);
}

TEST(SecretTest, AHeaderHasTheSecretBehindBearer) {
  EXPECT_EQ(SecretIn("Bearer gpk_x"), "gpk_x");
  EXPECT_EQ(SecretIn("bearer  gpk_x "), "gpk_x");
  EXPECT_EQ(SecretIn("Basic gpk_x"), "");
  EXPECT_EQ(SecretIn("Bearer"), "");
  EXPECT_EQ(SecretIn("gpk_x"), "");
  EXPECT_EQ(SecretIn(""), "");
}

}  // namespace
}  // namespace gpupool::server
