#include "engine/tokenizer/sentencepiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/tokenizer/story.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Returns the pieces of the text, as the model calls them.
std::string PiecesOf(const SentencePieceModel& model, std::string_view text) {
  std::vector<uint32_t> ids;
  EXPECT_EQ(model.Encode(text, &ids), "");
  std::string names;
  for (const uint32_t id : ids) names += model.PieceName(id) + " ";
  return names;
}

TEST(SentencePieceModelTest, LinesBecomePiecesAndAnEnd) {
  SentencePieceModel model;
  ASSERT_EQ(model.Load(StoryModel()), "");
  EXPECT_EQ(model.facts().kind, TokenizerKind::kBpe);
  EXPECT_EQ(model.facts().vocabulary, 280u);
  EXPECT_EQ(model.facts().line_end, 2);
  EXPECT_EQ(PiecesOf(model, "the"), "▁the </s> ");
  EXPECT_EQ(PiecesOf(model, "the\n"), "▁the </s> ");
  EXPECT_EQ(PiecesOf(model, "the\r\n\nthe"), "▁the </s> </s> ▁the </s> ");
  EXPECT_EQ(PiecesOf(model, ""), "");
}

TEST(SentencePieceModelTest, UnknownCharactersBecomeBytes) {
  SentencePieceModel model;
  ASSERT_EQ(model.Load(StoryModel(TokenizerKind::kUnigram)), "");
  EXPECT_EQ(model.facts().kind, TokenizerKind::kUnigram);
  EXPECT_THAT(PiecesOf(model, "\xC3\xA9"), HasSubstr("<0xC3> <0xA9> </s>"));
}

TEST(SentencePieceModelTest, OtherFilesAreNoModels) {
  EXPECT_THAT(SentencePieceModel().Load("the cat"),
              HasSubstr("is no SentencePiece model"));
  EXPECT_NE(SentencePieceModel().Load(""), "");
  const std::string large(kMaxTokenizerBytes + 1, 'a');
  EXPECT_THAT(SentencePieceModel().Load(large),
              HasSubstr("16777217 bytes, the limit is 16777216"));
}

TEST(SentencePieceModelTest, LongPiecesAreRefused) {
  // ModelProto.pieces is field 1; a piece is field 1 of it. Protobuf appends.
  const std::string piece =
      std::string("\x0A\xAD\x02", 3) + std::string(301, 'a');
  const std::string added = std::string("\x0A\xB0\x02", 3) + piece;
  EXPECT_THAT(SentencePieceModel().Load(StoryModel() + added),
              HasSubstr("has a piece of 301 bytes, number 280, the limit is"));
}

TEST(KindOfModelTest, DamagedFilesHaveSomeKind) {
  EXPECT_EQ(KindOfModel(""), TokenizerKind::kUnigram);
  EXPECT_EQ(KindOfModel(std::string("\x12\x02\x18\x04", 4)),
            TokenizerKind::kCharacter);
  EXPECT_EQ(KindOfModel(std::string("\x12\x02\x18\x09", 4)),
            TokenizerKind::kUnigram)
      << "no kind that is known";
  EXPECT_EQ(KindOfModel(std::string("\x12\xFF\xFF\xFF\xFF\x0F\x18", 7)),
            TokenizerKind::kUnigram)
      << "longer than the file";
  EXPECT_EQ(KindOfModel(std::string(20, '\xFF')), TokenizerKind::kUnigram);
}

}  // namespace
}  // namespace gpupool::engine
