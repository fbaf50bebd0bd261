#include "engine/tokenizer/sentencepiece_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tokenizer/sentencepiece_model.h"
#include "tests/engine/tokenizer/story.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Returns why a training on a file with the text fails.
std::string TrainingError(const std::string& text, uint32_t pieces = 280) {
  const std::string path = WriteTemporary("a.txt", text);
  std::string model;
  return TrainSentencePiece({.vocabulary = pieces, .files = {path}}, &model);
}

TEST(SentencePieceTrainerTest, TheSameTextsGiveTheSameModel) {
  for (const TokenizerKind kind :
       {TokenizerKind::kBpe, TokenizerKind::kUnigram}) {
    const std::string model = StoryModel(kind);
    EXPECT_EQ(StoryModel(kind), model);
    EXPECT_EQ(KindOfModel(model), kind);
  }
}

TEST(SentencePieceTrainerTest, AVocabularyEndsWhereTheTextsHaveNoMorePieces) {
  const std::string path = WriteTemporary("a.txt", Story());
  std::string bytes;
  ASSERT_EQ(TrainSentencePiece({.vocabulary = 8000, .files = {path}}, &bytes),
            "");
  SentencePieceModel model;
  ASSERT_EQ(model.Load(bytes), "");
  EXPECT_LT(model.facts().vocabulary, 8000u);
  EXPECT_GT(model.facts().vocabulary, 280u);
}

TEST(SentencePieceTrainerTest, TextsAreReadInTheirOrder) {
  const std::string first = WriteTemporary("1.txt", "the cat\n");
  const std::string marked =
      WriteTemporary("2.txt", "\xEF\xBB\xBFthe cat\r\n\r\nthe dog");
  std::string bytes;
  ASSERT_EQ(
      TrainSentencePiece({.vocabulary = 280, .files = {first, marked}}, &bytes),
      "");
  SentencePieceModel model;
  ASSERT_EQ(model.Load(bytes), "");
  for (uint32_t id = 0; id < model.facts().vocabulary; ++id) {
    EXPECT_NE(model.PieceName(id), "\xEF\xBB\xBF") << "a mark is no text";
    EXPECT_NE(model.PieceName(id), "\r");
  }
}

TEST(SentencePieceTrainerTest, ErrorsNameTheFileTheLineAndTheLimit) {
  EXPECT_EQ(TrainingError(""), "the files have no text");
  EXPECT_EQ(TrainingError("\n\n"), "the files have no text");
  EXPECT_THAT(TrainingError(std::string("a\nb\0\n", 5)),
              HasSubstr("a.txt: line 2 has a byte of zero"));
  EXPECT_THAT(TrainingError("a\n" + std::string((1 << 20) + 1, 'b')),
              HasSubstr("a.txt: line 2 is longer than 1048576 bytes"));
  EXPECT_EQ(TrainingError("a", 259),
            "the vocabulary is 259 pieces; write 260 to 262144");
  EXPECT_THAT(TrainingError("abcdefghijklmnopqrstuvwxyz", 261),
              HasSubstr("261 vs 286; give a larger vocabulary"));
  std::string model;
  EXPECT_THAT(TrainSentencePiece({.files = {"/nowhere/a.txt"}}, &model),
              StartsWith("/nowhere/a.txt cannot be opened: No such file"));
  EXPECT_THAT(TrainSentencePiece({.files = {"/"}}, &model),
              HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace gpupool::engine
