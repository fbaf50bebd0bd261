#include "engine/data/audio/wav_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/audio_files.h"

namespace gpupool::engine {
namespace {

using files::Number;
using files::WavHeader;
using ::testing::HasSubstr;

std::string HeaderRefusal(const std::string& bytes) {
  const absl::Status status = CheckWavHeader(bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(WavHeaderTest, KnowsWavFilesByTheirFirstBytes) {
  EXPECT_TRUE(IsWav(WavHeader(2)));
  EXPECT_FALSE(IsWav("RIFF"));
  EXPECT_FALSE(IsWav("RIFFxxxxAVI LIST"));
  EXPECT_FALSE(IsWav(""));
}

TEST(WavHeaderTest, PlainEncodingsAreTaken) {
  for (const uint32_t encoding : {1u, 3u, 6u, 7u, 0xfffeu}) {
    EXPECT_TRUE(CheckWavHeader(WavHeader(2, encoding) + "ab").ok());
  }
  EXPECT_THAT(HeaderRefusal(WavHeader(2, 0x11) + "ab"),
              HasSubstr("has the encoding 0x0011"));
}

TEST(WavHeaderTest, SamplesMustLieInTheFile) {
  EXPECT_THAT(HeaderRefusal(WavHeader(0xffffffff)),
              HasSubstr("claims 4294967295 bytes of samples, but has 0"));
  EXPECT_THAT(HeaderRefusal(WavHeader(4) + "ab"),
              HasSubstr("claims 4 bytes of samples, but has 2"));
  EXPECT_THAT(HeaderRefusal(WavHeader(0)), HasSubstr("has no samples"));
  EXPECT_THAT(HeaderRefusal(WavHeader(0) + "ab"), HasSubstr("has no samples"));
}

TEST(WavHeaderTest, ChunksMustLieInTheFile) {
  const std::string whole = WavHeader(2);
  const std::string front = whole.substr(0, 12);
  const std::string format = whole.substr(12, 24);
  const std::string data = whole.substr(36) + "ab";
  const std::string odd = "note" + Number(3, 4) + "abc" + std::string(1, '\0');
  EXPECT_TRUE(CheckWavHeader(front + odd + format + odd + data).ok());
  EXPECT_THAT(HeaderRefusal(front + "note" + Number(0xfffffff0, 4) + "abc"),
              HasSubstr("the chunk \"note\" claims 4294967280 bytes, but 3"));
  EXPECT_THAT(
      HeaderRefusal(front + "@\xC0\xFFx" + Number(0xfffffff0, 4) + "abc"),
      HasSubstr("the chunk \"@\\xc0\\xffx\" claims"))
      << "an error is UTF-8";
  EXPECT_THAT(HeaderRefusal(front + data), HasSubstr("before their format"));
  EXPECT_THAT(HeaderRefusal(front + format), HasSubstr("no chunk \"data\""));
  EXPECT_THAT(HeaderRefusal(front), HasSubstr("no chunk \"data\""));
  EXPECT_THAT(HeaderRefusal(front + "fmt " + Number(2, 4) + "\1" +
                            std::string(1, '\0')),
              HasSubstr("has 2 bytes, 16 or more"));
}

}  // namespace
}  // namespace gpupool::engine
