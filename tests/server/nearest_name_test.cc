#include "server/nearest_name.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

TEST(NearestNameTest, TakesTheOneWithTheFewestOtherLetters) {
  EXPECT_EQ(NearestName("quues", {"tenants", "queues", "slots"}), "queues");
  EXPECT_EQ(NearestName("http-prt", {"grpc-port", "http-port"}), "http-port");
  EXPECT_EQ(NearestName("slots", {"slots", "slot"}), "slots");
}

TEST(NearestNameTest, AThirdOfTheLettersMayDiffer) {
  EXPECT_EQ(NearestName("abcxyz", {"abcdyz"}), "abcdyz");
  EXPECT_EQ(NearestName("abcdef", {"xycdef"}), "xycdef") << "two of six";
  EXPECT_EQ(NearestName("abcdef", {"xyzdef"}), "") << "three of six";
}

TEST(NearestNameTest, NothingIsNearToNothingAndToVeryLongWords) {
  EXPECT_EQ(NearestName("", {"a"}), "");
  EXPECT_EQ(NearestName("a", {}), "");
  const std::string word(65, 'a');
  EXPECT_EQ(NearestName(word, {word}), "");
}

}  // namespace
}  // namespace gpupool::server
