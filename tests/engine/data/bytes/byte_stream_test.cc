#include "engine/data/bytes/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> ReadAll(ByteStream& stream, size_t piece) {
  std::string all, buffer(piece, '\0');
  for (;;) {
    auto count = stream.Read(absl::MakeSpan(buffer.data(), piece));
    if (!count.ok()) return count.status();
    if (*count == 0) return all;
    all.append(buffer, 0, *count);
  }
}

TEST(ByteStreamTest, GzipIsToldByItsFirstBytes) {
  for (const std::string& bytes :
       {std::string("plain"), files::Gzip("plain")}) {
    auto stream = OpenByteStream(bytes);
    auto text = ReadAll(*stream, 2);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "plain");
  }
}

TEST(ByteStreamTest, GzipMembersFollowEachOther) {
  const std::string bytes = files::Gzip("one ") + files::Gzip("two");
  auto stream = GzipStream(bytes);
  EXPECT_EQ(*ReadAll(*stream, 100), "one two");
}

TEST(ByteStreamTest, CutOffOrSpoiledGzipIsAnError) {
  const std::string whole = files::Gzip(std::string(1000, 'a') + "tail");
  const std::string half = whole.substr(0, whole.size() / 2);
  auto cut = GzipStream(half);
  EXPECT_THAT(ReadAll(*cut, 100).status().message(),
              HasSubstr("ends too early"));
  std::string spoiled = whole;
  spoiled[spoiled.size() - 6] ^= 1;  // in the checksum
  auto broken = GzipStream(spoiled);
  EXPECT_THAT(ReadAll(*broken, 100).status().message(), HasSubstr("broken"));
}

TEST(ByteStreamTest, StopsABomb) {
  const std::string bomb = files::Gzip(std::string(100 << 20, '\0'));
  auto stream = GzipStream(bomb);
  EXPECT_THAT(ReadAll(*stream, 1 << 20).status().message(),
              HasSubstr("200 times"));
}

TEST(ByteStreamTest, ReadExactlyTellsHowMuchIsMissing) {
  auto stream = PlainStream("abc");
  std::string out(5, '\0');
  EXPECT_THAT(ReadExactly(*stream, absl::MakeSpan(out.data(), 5)).message(),
              HasSubstr("ends after 3 of 5"));
}

TEST(ByteStreamTest, ExpectEndRefusesExtraBytes) {
  auto stream = PlainStream("a");
  EXPECT_FALSE(ExpectEnd(*stream).ok());
  EXPECT_TRUE(ExpectEnd(*stream).ok());
}

}  // namespace
}  // namespace gpupool::engine
