#include "client/yaml/precision_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

TEST(PrecisionWordsTest, OtherNamesOfTheSameArithmeticAreTaken) {
  const struct {
    const char* word;
    v1::Precision precision;
  } cases[] = {{"highest", v1::HIGHEST}, {"HIGH", v1::HIGH},
               {"bf16", v1::BF16},       {"Fp16", v1::FP16},
               {"float32", v1::HIGHEST}, {"tf32", v1::HIGH},
               {"bfloat16", v1::BF16},   {"half", v1::FP16}};
  for (const auto& [word, precision] : cases) {
    const auto parsed = ParsePrecision(word);
    ASSERT_TRUE(parsed.ok()) << word << ": " << parsed.status();
    EXPECT_EQ(*parsed, precision) << word;
  }
}

TEST(PrecisionWordsTest, EachArithmeticHasAWordThatIsTaken) {
  for (const v1::Precision precision :
       {v1::HIGHEST, v1::HIGH, v1::BF16, v1::FP16}) {
    const auto parsed = ParsePrecision(ArithmeticWord(precision));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, precision);
  }
  // An unset precision is float32.
  EXPECT_EQ(ArithmeticWord(v1::PRECISION_UNSPECIFIED), "float32");
}

TEST(PrecisionWordsTest, PyTorchsMediumIsAnsweredWithWhatToWrite) {
  EXPECT_THAT(ParsePrecision("medium").status().message(),
              HasSubstr("write bf16"));
}

TEST(PrecisionWordsTest, UnknownWordsAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(ParsePrecision("fp61").status().message(),
            "'fp61' is not one of highest, high, bf16, fp16, which a precision "
            "needs; did you mean 'fp16'?");
  // The value of an unset field is no word.
  EXPECT_FALSE(ParsePrecision("precision_unspecified").ok());
}

}  // namespace
}  // namespace gpupool::client
