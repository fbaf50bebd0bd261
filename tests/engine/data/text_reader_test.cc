#include "engine/data/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"
#include "tests/engine/data/tokens/trained_model.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tokens = std::vector<std::string>;

std::string TextRefusal(const std::string& text, const Tokens& tokens = {}) {
  const auto table = ReadText({{"a.txt", text}}, tokens, {});
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
  return std::string(table.status().message());
}

TEST(TextReaderTest, BytesAreFeaturesAndLabels) {
  const std::string text = "a\xC3\xA9\n";
  for (const std::string& bytes : {text, files::Gzip(text)}) {
    const auto table = ReadText({{"a.txt", bytes}}, {}, {});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->rows, 4u);
    EXPECT_EQ(table->features().type, ElementType::kUint8);
    EXPECT_THAT(table->features().shape, ElementsAre(1));
    EXPECT_THAT(Floats(table->features()), ElementsAre(97, 195, 169, 10));
    EXPECT_TRUE(table->labels().shape.empty());
    EXPECT_THAT(Floats(table->labels()), ElementsAre(97, 195, 169, 10));
    EXPECT_EQ(table->labels().facts.class_count(), 256u)
        << "also bytes that the text has not";
    EXPECT_THAT(table->class_names, IsEmpty());
    EXPECT_EQ(table->host_bytes(), 4u) << "the bytes are shared";
  }
}

TEST(TextReaderTest, FilesFollowEachOtherInLinesOfTheirOwn) {
  const auto table = ReadText({{"a.txt",
                                "\xEF\xBB\xBF"
                                "a"},
                               {"b.txt", "b\n"},
                               {"c.txt", "c"}},
                              {}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()),
              ElementsAre('a', '\n', 'b', '\n', 'c'));
}

TEST(TextReaderTest, CharactersMayCrossThePartsThatAreRead) {
  // The reader takes 256 KiB at a time. Two bytes a character after one or none
  // put a character across each border in one of the cases.
  for (const char* front : {"", "x"}) {
    std::string text = front;
    while (text.size() < (size_t{600} << 10)) text += "\xC3\xA9";
    const auto table = ReadText({{"a.txt", text}}, {}, {});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(std::string(table->features().data, table->rows), text);
  }
}

TEST(TextReaderTest, BrokenTextIsRefusedWithFileAndLine) {
  EXPECT_EQ(TextRefusal("one\ntwo\nth\xFFree\n"),
            "a.txt: line 3 is not UTF-8; save the file as UTF-8");
  EXPECT_THAT(TextRefusal("one\ncut \xC3"), HasSubstr("line 2 is not UTF-8"));
  EXPECT_THAT(TextRefusal(std::string("a\0b\0", 4)),
              HasSubstr("line 1 has a byte of zero; save the file as UTF-8"));
  EXPECT_EQ(TextRefusal(""), "the text has no token");
  EXPECT_EQ(TextRefusal(" \n", {"a"}), "the text has no token");
}

TEST(TextReaderTest, WordsAreThePlacesInTheTable) {
  const Tokens tokens = {"<unk>", "the", "cat"};
  const auto table =
      ReadText({{"a.txt", "the  cat\r\n"}, {"b.txt", "\tThe the"}}, tokens, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->features().type, ElementType::kUint16);
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(table->class_names, ElementsAre("<unk>", "the", "cat"));
  EXPECT_EQ(table->host_bytes(), 8u);
}

TEST(TextReaderTest, EachTokenOfATableIsAClass) {
  const auto table =
      ReadText({{"a.txt", "the the"}}, {"the", "cat", "<unk>", "dog"}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->labels().facts.class_count(), 4u);
}

TEST(TextReaderTest, UnknownWordsNeedATokenOfTheirOwn) {
  EXPECT_EQ(TextRefusal("the\nthe cats\n", {"the", "cat"}),
            "a.txt: line 2 has the word \"cats\", which is none of the 2 "
            "tokens; add it to the table, or add the token <unk>, which stands "
            "for all other words");
  const std::string longest(100'000, 'x');
  EXPECT_EQ(Floats(ReadText({{"a.txt", longest + " a"}}, {"<unk>", "a"}, {})
                       ->features()),
            (std::vector<float>{0, 1}));
}

TEST(TextReaderTest, TablesOfTokensAreChecked) {
  EXPECT_THAT(TextRefusal("a", {"a", "a"}), HasSubstr("has \"a\" twice"));
  EXPECT_THAT(TextRefusal("a", {"a", ""}),
              HasSubstr("the token \"\" is empty"));
  EXPECT_THAT(TextRefusal("a", {"a b"}), HasSubstr("has a blank"));
  Tokens many;
  for (int i = 0; i <= 10'000; ++i) many.push_back("t" + std::to_string(i));
  EXPECT_THAT(TextRefusal("t1", many),
              HasSubstr("has 10001 tokens, the limit"));
  many.pop_back();
  const auto table = ReadText({{"a.txt", "t9999"}}, many, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->labels()), ElementsAre(9999));
}

TEST(TextReaderTest, NewTablesHaveNoTokenWithAByteOfZero) {
  const Tokens tokens = {"a", std::string("b\0", 2)};
  const auto table = ReadText({{"a.txt", "a"}}, tokens, {.is_new = true});
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
  EXPECT_THAT(std::string(table.status().message()),
              HasSubstr("has a byte of zero, which no text has; leave it out"));
  EXPECT_TRUE(ReadText({{"a.txt", "a"}}, tokens, {}).ok()) << "a stored one";
}

TEST(TextReaderTest, LargeTextsAreMappedAndBounded) {
  const ScratchFolder folder;
  const std::string text(1000, 'a');
  const auto table =
      ReadText({{"a.txt", text}}, {},
               {.memory_bytes = 999, .unpack_dir = folder.path()});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->host_bytes(), 0u);
  EXPECT_EQ(std::string(table->labels().data, table->rows), text);
  EXPECT_TRUE(ReadText({{"a.txt", text}}, {}, {.max_table_bytes = 1000}).ok());
  const auto large = ReadText({{"a.txt", text}}, {}, {.max_table_bytes = 999});
  EXPECT_TRUE(absl::IsResourceExhausted(large.status())) << large.status();
  EXPECT_THAT(std::string(large.status().message()),
              HasSubstr("a.txt: the text has more than 999 tokens"));
}

TEST(TextReaderTest, TextsHaveFactsAboutTheirTokens) {
  const auto bytes = ReadText({{"a.txt", "a \n\xC3\xA9"}}, {}, {});
  ASSERT_TRUE(bytes.ok() && bytes->text.has_value());
  EXPECT_EQ(bytes->text->tokenizer, TextFacts::Tokenizer::kBytes);
  EXPECT_EQ(bytes->text->vocabulary, 256u);
  EXPECT_THAT(bytes->text->first,
              ElementsAre("a", "<0x20>", "<0x0A>", "<0xC3>", "<0xA9>"));
  const auto words = ReadText({{"a.txt", "b a"}}, {"a", "b", "c"}, {});
  ASSERT_TRUE(words.ok() && words->text.has_value());
  EXPECT_EQ(words->text->tokenizer, TextFacts::Tokenizer::kWords);
  EXPECT_EQ(words->text->vocabulary, 3u);
  EXPECT_THAT(words->text->first, ElementsAre("b", "a"));
}

ReadLimits WithTokenizer() {
  ReadLimits limits;
  limits.tokenizer_program = TokenizerProgram();
  return limits;
}

TEST(TextReaderTest, PiecesOfAModelAreTokens) {
  const std::string model = TrainedModel();
  const auto table =
      ReadPieces({{"a.txt", "\xEF\xBB\xBFthe the\r\n"}, {"b.txt", "the"}},
                 {"a.model", model}, WithTokenizer());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->features().type, ElementType::kUint16);
  ASSERT_TRUE(table->text.has_value());
  EXPECT_EQ(table->text->tokenizer, TextFacts::Tokenizer::kBpe);
  EXPECT_EQ(table->text->vocabulary, 280u);
  EXPECT_THAT(table->text->first,
              ElementsAre("▁the", "▁the", "</s>", "▁the", "</s>"));
  EXPECT_EQ(table->rows, 5u);
  EXPECT_EQ(table->labels().facts.class_count(), 280u)
      << "also pieces that the text has not";
  EXPECT_THAT(table->class_names, IsEmpty());
}

TEST(TextReaderTest, PiecesDoNotDependOnThePartsThatAreRead) {
  const std::string model = TrainedModel();
  std::string text;
  while (text.size() < (size_t{700} << 10)) text += CatsAndDogs();
  const auto whole =
      ReadPieces({{"a.txt", text}}, {"a.model", model}, WithTokenizer());
  ASSERT_TRUE(whole.ok()) << whole.status();
  const size_t story = CatsAndDogs().size();
  const auto one = ReadPieces({{"a.txt", CatsAndDogs()}}, {"a.model", model},
                              WithTokenizer());
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(whole->rows, one->rows * (text.size() / story));
  EXPECT_EQ(whole->text->first, one->text->first);
}

TEST(TextReaderTest, AModelThatEndsItsProcessIsRefused) {
  std::string model = TrainedModel();
  // The first place in the table of characters, which SentencePiece does not
  // check.
  const size_t root = model.find("nmt_nfkc") + 16;
  ASSERT_LT(root + 4, model.size());
  model.replace(root, 4, std::string("\x00\xFE\xFF\x7F", 4));
  const auto table = ReadPieces({{"a.txt", CatsAndDogs()}}, {"a.model", model},
                                WithTokenizer());
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
  EXPECT_THAT(std::string(table.status().message()),
              HasSubstr("a.txt: line 1 and after it: the tokenizer ended the "
                        "program that reads it"));
}

TEST(TextReaderTest, BrokenModelsAndLongLinesAreRefused) {
  const auto refusal = [](const std::string& text, const std::string& model) {
    const auto table =
        ReadPieces({{"a.txt", text}}, {"a.model", model}, WithTokenizer());
    EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
    return std::string(table.status().message());
  };
  EXPECT_THAT(refusal("the", "the"),
              HasSubstr("a.model: the tokenizer is no SentencePiece model"));
  const std::string model = TrainedModel();
  EXPECT_THAT(refusal("a\nb\n" + std::string((1 << 20) + 1, 'c'), model),
              HasSubstr("a.txt: line 3 is longer than 1048576 bytes"));
  EXPECT_EQ(refusal("", model), "the text has no token");
  ReadLimits limits = WithTokenizer();
  limits.max_table_bytes = 6;
  EXPECT_TRUE(absl::IsResourceExhausted(
      ReadPieces({{"a.txt", "the cat the"}}, {"a.model", model}, limits)
          .status()));
}

}  // namespace
}  // namespace gpupool::engine
