#include "engine/data/audio/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/audio_limits.h"
#include "tests/engine/data/audio_files.h"

namespace gpupool::engine {
namespace {

using files::Recording;
using files::Sound;
using files::WavHeader;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

std::string AudioRefusal(const std::string& bytes) {
  const auto audio = DecodeAudio(bytes, 1 << 20);
  EXPECT_TRUE(absl::IsInvalidArgument(audio.status())) << audio.status();
  return std::string(audio.status().message());
}

TEST(DecodeAudioTest, ReadsPlainEncodings) {
  const std::vector<float> wave = {0.0f, 0.5f, -0.5f, 0.25f};
  for (const int form :
       {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_WAV | SF_FORMAT_PCM_U8,
        SF_FORMAT_WAV | SF_FORMAT_PCM_24, SF_FORMAT_WAV | SF_FORMAT_PCM_32,
        SF_FORMAT_WAV | SF_FORMAT_FLOAT, SF_FORMAT_WAV | SF_FORMAT_DOUBLE,
        SF_FORMAT_WAV | SF_FORMAT_ULAW, SF_FORMAT_WAV | SF_FORMAT_ALAW,
        SF_FORMAT_WAVEX | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
        SF_FORMAT_FLAC | SF_FORMAT_PCM_24}) {
    const auto audio =
        DecodeAudio(Sound({.rate = 16000, .numbers = wave, .form = form}), 9);
    ASSERT_TRUE(audio.ok()) << form << ": " << audio.status();
    EXPECT_EQ(audio->rate, 16000u);
    EXPECT_EQ(audio->channels, 1u);
    EXPECT_EQ(audio->samples, 4u);
    EXPECT_THAT(audio->numbers, Pointwise(FloatNear(0.03f), wave)) << form;
  }
}

TEST(DecodeAudioTest, IntegersBecomeFractions) {
  // 16384, -32768 and 1 of 16 bits.
  const auto audio =
      DecodeAudio(WavHeader(6) + files::Number(0x4000, 2) +
                      files::Number(0x8000, 2) + files::Number(1, 2),
                  9);
  ASSERT_TRUE(audio.ok()) << audio.status();
  EXPECT_THAT(audio->numbers, ElementsAre(0.5f, -1.0f, 1.0f / 32768));
}

TEST(DecodeAudioTest, FloatingPointNumbersStay) {
  const auto audio =
      DecodeAudio(Sound({.numbers = {1.5f, -3.0f},
                         .form = SF_FORMAT_WAV | SF_FORMAT_FLOAT}),
                  9);
  ASSERT_TRUE(audio.ok()) << audio.status();
  EXPECT_THAT(audio->numbers, ElementsAre(1.5f, -3.0f));
}

TEST(DecodeAudioTest, DecodesTheFirstSamplesOnly) {
  const Recording two = {.channels = 2,
                         .numbers = {0.5f, -0.5f, 0.25f, -0.25f, 0, 0}};
  const auto some = DecodeAudio(Sound(two), 2);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->channels, 2u);
  EXPECT_EQ(some->samples, 3u);
  EXPECT_THAT(some->numbers, ElementsAre(0.5f, -0.5f, 0.25f, -0.25f));
  const auto none = DecodeAudio(Sound(two), 0);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->samples, 3u);
  EXPECT_THAT(none->numbers, IsEmpty());
}

TEST(DecodeAudioTest, LongRecordingsComeInParts) {
  std::vector<float> wave(10'001);
  for (size_t i = 0; i < wave.size(); ++i) {
    wave[i] = static_cast<float>(i % 32) / 64;
  }
  const auto audio = DecodeAudio(
      Sound({.numbers = wave, .form = SF_FORMAT_FLAC | SF_FORMAT_PCM_16}),
      wave.size());
  ASSERT_TRUE(audio.ok()) << audio.status();
  EXPECT_EQ(audio->numbers, wave);
}

TEST(DecodeAudioTest, RefusesOtherFiles) {
  EXPECT_THAT(AudioRefusal(""), HasSubstr("is empty"));
  EXPECT_THAT(AudioRefusal("ID3 and so on"), HasSubstr("neither WAV nor FLAC"));
  EXPECT_THAT(AudioRefusal("fLaC and no more"), HasSubstr("is no FLAC file"));
  EXPECT_THAT(AudioRefusal(Sound({.numbers = {0, 0},
                                  .form = SF_FORMAT_AIFF | SF_FORMAT_PCM_16})),
              HasSubstr("neither WAV nor FLAC"));
  EXPECT_THAT(
      AudioRefusal(Sound(
          {.numbers = {0, 0}, .form = SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM})),
      HasSubstr("has the encoding 0x0011"));
}

TEST(DecodeAudioTest, RefusesFilesThatClaimMoreThanTheyHave) {
  EXPECT_THAT(AudioRefusal(WavHeader(0xfffffff0)),
              HasSubstr("claims 4294967280 bytes of samples, but has 0"));
  std::vector<float> noise(20'000);
  for (size_t i = 0; i < noise.size(); ++i) {
    noise[i] = static_cast<float>(i * 7919 % 20'011) / 20'011 - 0.5f;
  }
  const std::string flac =
      Sound({.numbers = noise, .form = SF_FORMAT_FLAC | SF_FORMAT_PCM_16});
  EXPECT_THAT(AudioRefusal(flac.substr(0, flac.size() / 2)),
              HasSubstr("of the 20000 samples that its header claims"));
}

TEST(DecodeAudioTest, RefusesFilesWithoutACountOfSamples) {
  std::string flac = Sound({.numbers = std::vector<float>(100, 0.5f),
                            .form = SF_FORMAT_FLAC | SF_FORMAT_PCM_16});
  // The last 36 bits of the 18 bytes behind the first header of a block.
  ASSERT_EQ(flac.substr(22, 4), files::Number(100u << 24, 4));
  flac[21] = static_cast<char>(flac[21] & 0xf0);
  flac.replace(22, 4, 4, '\0');
  EXPECT_THAT(AudioRefusal(flac),
              HasSubstr("does not say how many samples it has"));
}

TEST(DecodeAudioTest, NeverDecodesMoreThanARowOfNumbers) {
  constexpr size_t kSamples = kMaxAudioRowNumbers / 8 + 1000;
  const auto audio =
      DecodeAudio(Sound({.channels = 8,
                         .numbers = std::vector<float>(8 * kSamples),
                         .form = SF_FORMAT_FLAC | SF_FORMAT_PCM_16}),
                  kMaxAudioRowNumbers);
  ASSERT_TRUE(audio.ok()) << audio.status();
  EXPECT_EQ(audio->samples, kSamples);
  EXPECT_EQ(audio->numbers.size(), kMaxAudioRowNumbers);
}

TEST(DecodeAudioTest, EveryPrefixOfAFileIsHandled) {
  for (const int form :
       {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16}) {
    const std::string whole =
        Sound({.numbers = std::vector<float>(50, 0.1f), .form = form});
    for (size_t size = 0; size < whole.size(); ++size) {
      const auto audio = DecodeAudio(whole.substr(0, size), 50);
      if (!audio.ok()) {
        EXPECT_TRUE(absl::IsInvalidArgument(audio.status())) << audio.status();
      }
    }
  }
}

TEST(DecodeAudioTest, RefusesNumbersThatAreNotFinite) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(AudioRefusal(Sound({.channels = 2,
                                  .numbers = {0, 0, 0, none},
                                  .form = SF_FORMAT_WAV | SF_FORMAT_FLOAT})),
              HasSubstr("nan as sample 1 of channel 1"));
}

TEST(DecodeAudioTest, RefusesTooManyChannels) {
  EXPECT_THAT(
      AudioRefusal(Sound({.channels = 33, .numbers = std::vector<float>(33)})),
      HasSubstr("has 33 channels; 1 to 32"));
}

}  // namespace
}  // namespace gpupool::engine
