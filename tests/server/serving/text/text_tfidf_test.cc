#include "server/serving/text/text_tfidf.h"

#include <google/protobuf/text_format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

// The n-grams "a", "b" and "a b" with the outputs 0, 1 and 2.
v1::TextProgram::Tfidf Grams(const std::string& more) {
  v1::TextProgram::Tfidf options;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "counts: [ 0, 2 ] indexes: [ 0, 1, 2 ] "
      "pool { data_type: STRING shape: 4 texts: [ 'a', 'b', 'a', 'b' ] }" +
          more,
      &options));
  if (options.min_length() == 0) options.set_min_length(1);
  if (options.max_length() == 0) options.set_max_length(2);
  return options;
}

absl::Status StatusOf(const v1::TextProgram::Tfidf& options) {
  return TextTfidf::Create(options).status();
}

TEST(TextTfidfTest, NGramsOfEachRowAreCounted) {
  const v1::TextProgram::Tfidf options = Grams("");
  const auto tfidf = TextTfidf::Create(options);
  ASSERT_TRUE(tfidf.ok()) << tfidf.status();
  TextMemory memory;
  const auto counts =
      tfidf->Run(TextsOf({"a", "b", "a", "b", "x", "b"}, {2, 3}), memory);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_THAT(counts->shape, ElementsAre(2, 3));
  EXPECT_THAT(counts->floats, ElementsAre(2, 1, 1, 0, 2, 0));
}

TEST(TextTfidfTest, SkippedElementsStandBetweenThoseOfAnNGram) {
  const v1::TextProgram::Tfidf options = Grams("max_skips: 1 ");
  const auto tfidf = TextTfidf::Create(options);
  TextMemory memory;
  EXPECT_THAT(tfidf->Run(TextsOf({"a", "x", "b"}, {3}), memory)->floats,
              ElementsAre(1, 1, 1));
}

TEST(TextTfidfTest, WeightsScaleCountsOrReplaceThem) {
  const TextTensor words = TextsOf({"a", "a"}, {2});
  TextMemory memory;
  const v1::TextProgram::Tfidf scaled =
      Grams("mode: TFIDF weights: [ 0.5, 2, 3 ]");
  EXPECT_THAT(TextTfidf::Create(scaled)->Run(words, memory)->floats,
              ElementsAre(1, 0, 0));
  const v1::TextProgram::Tfidf replaced =
      Grams("mode: IDF weights: [ 0.5, 2, 3 ]");
  EXPECT_THAT(TextTfidf::Create(replaced)->Run(words, memory)->floats,
              ElementsAre(0.5, 0, 0));
}

TEST(TextTfidfTest, ListsThatDoNotFitAreRefused) {
  for (const char* wrong :
       {"weights: 1", "indexes: -1", "max_length: 99", "max_skips: -1",
        "counts: 1000000", "min_length: 3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(Grams(wrong)))) << wrong;
  }
}

}  // namespace
}  // namespace gpupool::server
