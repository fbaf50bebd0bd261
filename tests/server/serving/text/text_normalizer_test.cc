#include "server/serving/text/text_normalizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using Normalizer = v1::TextProgram::Normalizer;

TEST(TextNormalizerTest, CaseIsChangedCharacterByCharacter) {
  EXPECT_EQ(ChangeCase("Cat", Normalizer::UPPER), "CAT");
  EXPECT_EQ(ChangeCase("B\xc3\x84R \xd0\x94", Normalizer::LOWER),
            "b\xc3\xa4r \xd0\xb4");
  EXPECT_EQ(ChangeCase("A\xff\xc3", Normalizer::LOWER), "a\xff\xc3")
      << "bytes that are not UTF-8 stay";
  EXPECT_EQ(ChangeCase("\xf0\x9f\x98\x80X", Normalizer::LOWER),
            "\xf0\x9f\x98\x80x");
}

TEST(TextNormalizerTest, StopwordsAreRemovedBeforeTheCaseChanges) {
  Normalizer options;
  options.set_change(Normalizer::LOWER);
  options.add_stopwords("the");
  TextMemory memory;
  const TextTensor words = TextsOf({"The", "CAT"}, {1, 2});
  const auto ignoring = TextNormalizer(options).Run(words, memory);
  ASSERT_TRUE(ignoring.ok()) << ignoring.status();
  EXPECT_THAT(ignoring->texts, ElementsAre("cat"));
  EXPECT_THAT(ignoring->shape, ElementsAre(1, 1));
  options.set_case_sensitive(true);
  EXPECT_THAT(TextNormalizer(options).Run(words, memory)->texts,
              ElementsAre("the", "cat"));
}

TEST(TextNormalizerTest, OneEmptyTextIsLeftOfNothing) {
  Normalizer options;
  options.add_stopwords("a");
  TextMemory memory;
  const auto left = TextNormalizer(options).Run(TextsOf({"A"}, {1}), memory);
  EXPECT_THAT(left->texts, ElementsAre(""));
  EXPECT_THAT(left->shape, ElementsAre(1));
  EXPECT_TRUE(
      absl::IsInvalidArgument(TextNormalizer(options)
                                  .Run(TextsOf({"a", "b"}, {2, 1}), memory)
                                  .status()));
}

}  // namespace
}  // namespace gpupool::server
