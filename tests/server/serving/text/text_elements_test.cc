#include "server/serving/text/text_elements.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

absl::Span<const std::byte> SpanOf(const std::string& raw) {
  return {reinterpret_cast<const std::byte*>(raw.data()), raw.size()};
}

TEST(TextElementsTest, TextsAreWrittenAndRead) {
  TextMemory memory;
  const auto raw = WriteTextElements(TextsOf({"ab", ""}, {2}), memory);
  ASSERT_TRUE(raw.ok());
  EXPECT_EQ(*raw, std::string("\2\0\0\0ab\0\0\0\0", 10));
  EXPECT_THAT(ReadTextElements(v1::STRING, {2}, SpanOf(*raw), memory)->texts,
              ElementsAre("ab", ""));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadTextElements(v1::STRING, {3}, SpanOf(*raw), memory).status()));
}

TEST(TextElementsTest, NumbersAreReadAsSentAndWrittenAsHeld) {
  TextMemory memory;
  const std::string raw("\xff\xff\1\0", 4);
  const auto read = ReadTextElements(v1::UINT16, {2}, SpanOf(raw), memory);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->integers, ElementsAre(65535, 1));
  EXPECT_EQ(WriteTextElements(*read, memory)->size(), 2 * sizeof(int32_t));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadTextElements(v1::UINT16, {3}, SpanOf(raw), memory).status()));
  const auto floats = WriteTextElements(FloatsOf({1.5}, {1}), memory);
  EXPECT_THAT(
      ReadTextElements(v1::FLOAT32, {1}, SpanOf(*floats), memory)->floats,
      ElementsAre(1.5));
}

TEST(TextElementsTest, TooManyElementsAreRefused) {
  TextMemory memory;
  EXPECT_FALSE(
      ReadTextElements(v1::STRING, {int64_t{1} << 40}, {}, memory).ok());
}

}  // namespace
}  // namespace gpupool::server
