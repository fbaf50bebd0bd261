#include "engine/data/audio_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/engine/data/audio_files.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/image_files.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using files::Sound;
using files::Tar;
using files::WavHeader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns a WAV file with one channel.
std::string Wave(std::vector<float> numbers, int rate = 8000) {
  return Sound({.rate = rate, .numbers = std::move(numbers)});
}

absl::StatusOr<Table> ReadRecordings(const std::string& archive,
                                     const AudioOptions& options = {},
                                     const ReadLimits& limits = {}) {
  return ReadAudio({{"a.tar", archive}}, options, limits);
}

std::string RefusalOfAudio(const std::string& archive,
                           const AudioOptions& options = {}) {
  const auto table = ReadRecordings(archive, options);
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
  return std::string(table.status().message());
}

TEST(AudioReaderTest, RowsAreRecordingsWithTheClassesOfTheirFolders) {
  const auto table = ReadRecordings(Tar(
      {{"low/1.wav", Wave({0.5f, -0.5f})},
       {"high/deep/2.FLAC", Sound({.numbers = {0.25f, 0.5f},
                                   .form = SF_FORMAT_FLAC | SF_FORMAT_PCM_16})},
       {"low/notes.txt", "left out"}}));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->class_names, ElementsAre("high", "low"));
  EXPECT_EQ(table->features().type, ElementType::kFloat32);
  EXPECT_THAT(table->features().shape, ElementsAre(1, 2));
  EXPECT_THAT(Floats(table->features()), ElementsAre(0.5f, -0.5f, 0.25f, 0.5f));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1, 0));
  EXPECT_EQ(table->labels().facts.class_count(), 2u);
  ASSERT_TRUE(table->audio.has_value());
  EXPECT_EQ(table->audio->rate, 8000u);
  EXPECT_EQ(table->audio->channels, 1u);
  EXPECT_EQ(table->audio->shortest, 2u);
  EXPECT_EQ(table->audio->longest, 2u);
}

TEST(AudioReaderTest, ChannelsComeOneAfterTheOther) {
  const std::string two =
      Sound({.channels = 2, .numbers = {0.5f, -0.5f, 0.25f, -0.25f}});
  const auto table =
      ReadRecordings(Tar({{"a/1.wav", two}, {"b/2.wav", two}}), {.samples = 3});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features().shape, ElementsAre(2, 3));
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(0.5f, 0.25f, 0, -0.5f, -0.25f, 0, 0.5f, 0.25f, 0,
                          -0.5f, -0.25f, 0));
}

TEST(AudioReaderTest, ALengthCutsAndPads) {
  const std::string archive = Tar({{"a/1.wav", Wave({0.5f}, 4)},
                                   {"b/2.wav", Wave({0.25f, 0.5f, 0.75f}, 4)},
                                   {"b/3.wav", Wave({-0.25f, -0.5f}, 4)}});
  for (const AudioOptions& options :
       {AudioOptions{.samples = 2}, AudioOptions{.seconds = 0.5}}) {
    const auto table = ReadRecordings(archive, options);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(Floats(table->features()),
                ElementsAre(0.5f, 0, 0.25f, 0.5f, -0.25f, -0.5f));
    EXPECT_EQ(table->audio->shortest, 1u);
    EXPECT_EQ(table->audio->longest, 3u);
    EXPECT_EQ(table->audio->cut_rows, 1u);
    EXPECT_EQ(table->audio->padded_rows, 1u);
  }
  EXPECT_THAT(RefusalOfAudio(archive),
              HasSubstr("a.tar: b/2.wav has 3 samples, but the first "
                        "recording, a/1.wav, has 1; set"));
}

TEST(AudioReaderTest, NothingIsResampledOrMixed) {
  const std::string rates =
      Tar({{"a/1.wav", Wave({0, 0})}, {"b/2.wav", Wave({0, 0}, 44100)}});
  EXPECT_THAT(RefusalOfAudio(rates),
              HasSubstr("b/2.wav has 44100 samples a second, but the first "
                        "recording, a/1.wav, has 8000; nothing is resampled"));
  EXPECT_THAT(RefusalOfAudio(rates, {.rate = 44100}),
              HasSubstr("a/1.wav has 8000 samples a second, but "
                        "layout.audio.rate is 44100"));
  const std::string two = Sound({.channels = 2, .numbers = {0, 0, 0, 0}});
  EXPECT_THAT(
      RefusalOfAudio(Tar({{"a/1.wav", Wave({0, 0})}, {"b/2.wav", two}})),
      HasSubstr("b/2.wav has 2 channels, but the first recording, a/1.wav, "
                "has 1; nothing is mixed"));
}

TEST(AudioReaderTest, TheRowsHaveALimit) {
  const std::string two = Sound({.channels = 2, .numbers = {0, 0}});
  const std::string archive = Tar({{"a/1.wav", two}, {"b/2.wav", two}});
  EXPECT_THAT(RefusalOfAudio(archive, {.samples = 1 << 24}),
              HasSubstr("rows of 16777216 samples and 2 channels are not"));
  EXPECT_THAT(RefusalOfAudio(archive, {.seconds = 1e-9}),
              HasSubstr("rows of 0 samples"));
}

TEST(AudioReaderTest, NamesTheRecordingThatIsBroken) {
  const std::string good = Wave({0, 0});
  EXPECT_THAT(
      RefusalOfAudio(
          Tar({{"a/1.wav", good}, {"b/2.wav", WavHeader(1u << 31)}})),
      HasSubstr("a.tar: b/2.wav claims 2147483648 bytes of samples, but"));
  EXPECT_THAT(RefusalOfAudio(Tar({{"a/1.wav", good}, {"b/2.mp3", "ID3"}})),
              HasSubstr("b/2.mp3: only WAV and FLAC files can be read"));
  EXPECT_THAT(RefusalOfAudio(Tar({{"a/1.jpg", "x"}})),
              HasSubstr("holds no recording (.wav or .flac)"));
}

TEST(AudioReaderTest, LargeTablesGoToTheDiskOrAreRefused) {
  const ScratchFolder folder;
  const std::string archive =
      Tar({{"a/1.wav", Wave({0.5f, 0})}, {"b/2.wav", Wave({0, 0.5f})}});
  const auto table = ReadRecordings(
      archive, {}, {.memory_bytes = 0, .unpack_dir = folder.path()});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->host_bytes(), 0u);
  EXPECT_THAT(Floats(table->features()), ElementsAre(0.5f, 0, 0, 0.5f));
  // 8 bytes of samples and 8 of the class, twice.
  EXPECT_TRUE(ReadRecordings(archive, {}, {.max_table_bytes = 32}).ok());
  const auto refused = ReadRecordings(archive, {}, {.max_table_bytes = 31});
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(refused.status().message(), HasSubstr("--audio-samples"));
}

}  // namespace
}  // namespace gpupool::engine
