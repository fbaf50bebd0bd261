// Damaged texts, recordings and SentencePiece models end in a table or in an
// error that names the file, never in a crash. All from a printed seed.
//
// GPUPOOL_FUZZ_ROUNDS sets the rounds (1000; a tenth of it for models, each of
// which takes a process), GPUPOOL_FUZZ_SEED the seed. The same seed and round
// make the same bytes, whatever the earlier rounds were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/data/audio_reader.h"
#include "engine/data/text_reader.h"
#include "tests/engine/data/audio_files.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"
#include "tests/engine/data/image_files.h"
#include "tests/engine/data/tokens/trained_model.h"
#include "tests/fuzz/dice.h"

namespace gpupool::engine {
namespace {

using fuzz::Dice;

constexpr uint64_t kSeedOfTexts = 20261130;

uint64_t TextSetting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Makes one to four changes: a byte or a bit, some bytes less or twice, or the
// rest cut off.
std::string Mutated(std::string bytes, Dice& dice) {
  for (int64_t left = dice.Between(1, 4); left > 0 && !bytes.empty(); --left) {
    const auto at =
        static_cast<size_t>(dice.Below(static_cast<int64_t>(bytes.size())));
    switch (dice.Below(5)) {
      case 0:
        bytes[at] = static_cast<char>(dice.Below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice.Below(8)));
        break;
      case 2:
        bytes.erase(at, static_cast<size_t>(dice.Between(1, 8)));
        break;
      case 3:
        bytes.insert(
            at, bytes.substr(at, static_cast<size_t>(dice.Between(1, 16))));
        break;
      default:
        if (dice.Chance(20)) bytes.resize(at);
    }
  }
  return bytes;
}

void CheckRefusal(const absl::Status& status, const std::string& file) {
  const std::string text(status.message());
  ASSERT_TRUE(absl::IsInvalidArgument(status) ||
              absl::IsResourceExhausted(status))
      << status;
  ASSERT_TRUE(IsUtf8(text)) << absl::CHexEscape(text);
  ASSERT_LT(text.size(), 8192u);
  // These are about all files.
  ASSERT_THAT(text, ::testing::AnyOf(
                        "the text has no token", ::testing::HasSubstr(file),
                        ::testing::HasSubstr("of one class only")));
}

void CheckRows(const Table& table) {
  ASSERT_GT(table.rows, 0u);
  ASSERT_EQ(table.labels().rows, table.rows);
  for (const float number : Floats(table.features())) {
    ASSERT_TRUE(std::isfinite(number)) << number;
  }
}

// Reads `rounds` damaged files. `read` gets the dice and returns what a reader
// says of a file with a name that has `file`.
template <typename Read>
void RunRounds(uint64_t rounds, const std::string& file, const Read& read) {
  const uint64_t seed = TextSetting("GPUPOOL_FUZZ_SEED", kSeedOfTexts);
  for (uint64_t round = 0; round < rounds; ++round) {
    Dice dice(seed, round);
    SCOPED_TRACE(absl::StrCat("GPUPOOL_FUZZ_SEED=", seed, ", round ", round));
    const absl::StatusOr<Table> table = read(dice);
    if (table.ok()) {
      CheckRows(*table);
    } else {
      CheckRefusal(table.status(), file);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

uint64_t RoundsOfTexts() { return TextSetting("GPUPOOL_FUZZ_ROUNDS", 1000); }

TEST(HostileTextsTest, DamagedTextsEndInTokensOrAnErrorWithAFile) {
  const std::string text =
      "\xEF\xBB\xBFthe cat\r\n\xC3\xA9 \xF0\x9F\x98\x80 sees\n\tthe\n";
  const std::string packed = files::Gzip(text + CatsAndDogs());
  RunRounds(RoundsOfTexts(), "a.txt", [&](Dice& dice) {
    const std::string damaged = Mutated(dice.Chance(50) ? text : packed, dice);
    std::vector<std::string> words;
    if (dice.Chance(50)) words = {"<unk>", "the", "cat"};
    if (dice.Chance(20)) words = {"the"};
    // A damaged archive may become very long.
    return ReadText({{"a.txt", damaged}}, words, {.max_table_bytes = 1 << 20});
  });
}

TEST(HostileTextsTest, DamagedRecordingsEndInRowsOrAnErrorWithAFile) {
  const std::vector<float> wave = {0.5f, -0.5f, 0.25f, 0, 0.125f, 1};
  const std::string wav = files::Sound({.numbers = wave});
  const std::string flac = files::Sound(
      {.numbers = wave, .form = SF_FORMAT_FLAC | SF_FORMAT_PCM_16});
  RunRounds(RoundsOfTexts(), "a.tar", [&](Dice& dice) {
    const bool is_wav = dice.Chance(60);
    const std::string damaged = Mutated(is_wav ? wav : flac, dice);
    const std::string archive = files::Tar(
        {{"low/1.wav", wav}, {is_wav ? "high/2.wav" : "high/2.flac", damaged}});
    return ReadAudio({{"a.tar", archive}}, {.samples = 8},
                     {.max_table_bytes = 1 << 20});
  });
}

TEST(HostileTextsTest, DamagedArchivesOfRecordingsEndInRowsOrAnError) {
  const std::string archive =
      files::Tar({{"low/1.wav", files::Sound({.numbers = {0.5f, -0.5f}})},
                  {"high/2.wav", files::Sound({.numbers = {0, 0.5f}})}});
  RunRounds(RoundsOfTexts(), "a.tar", [&](Dice& dice) {
    const std::string damaged = Mutated(archive, dice);
    return ReadAudio({{"a.tar", damaged}}, {.samples = 8},
                     {.max_table_bytes = 1 << 20});
  });
}

// Changes many bytes of the table of characters, which is the end of a model.
// Some of these end the process that loads the model.
std::string WithBrokenCharacters(std::string model, Dice& dice) {
  constexpr int64_t kPiecesEnd = 6000;
  for (int64_t left = dice.Between(30, 70); left > 0; --left) {
    const int64_t at =
        dice.Between(kPiecesEnd, static_cast<int64_t>(model.size()) - 1);
    model[static_cast<size_t>(at)] = static_cast<char>(dice.Below(256));
  }
  return model;
}

TEST(HostileTextsTest, DamagedModelsEndInTokensOrAnErrorWithAFile) {
  const std::string model = TrainedModel();
  ASSERT_GT(model.size(), 100'000u);
  ReadLimits limits = {.max_table_bytes = 1 << 20};
  limits.tokenizer_program = TokenizerProgram();
  const std::string text =
      "the \xC3\xA9\xF0\x9F\x98\x80 \xEF\xAC\x81 sun\n" + CatsAndDogs();
  RunRounds(RoundsOfTexts() / 10, "a.", [&](Dice& dice) {
    const std::string damaged = dice.Chance(50)
                                    ? Mutated(model, dice)
                                    : WithBrokenCharacters(model, dice);
    return ReadPieces({{"a.txt", text}}, {"a.model", damaged}, limits);
  });
}

}  // namespace
}  // namespace gpupool::engine
