#include "server/serving/tensor/bytes_elements.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Fault(absl::string_view raw, uint64_t count) {
  const absl::Status status = ReadBytesElements(raw, count).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(BytesElementsTest, WhatIsAppendedIsRead) {
  const std::string zeros(3, '\0');
  std::string raw;
  for (const std::string& text : {std::string("ab"), std::string(), zeros}) {
    AppendBytesElement(text, &raw);
  }
  EXPECT_EQ(raw.substr(0, 6), std::string("\2\0\0\0ab", 6));
  const auto read = ReadBytesElements(raw, 3);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ElementsAre("ab", "", zeros));
  EXPECT_THAT(*ReadBytesElements("", 0), IsEmpty());
}

TEST(BytesElementsTest, ContentsWithOtherLengthsAreRefused) {
  EXPECT_THAT(Fault(std::string("\2\0\0\0ab", 6), 2), HasSubstr("too few"));
  EXPECT_THAT(Fault("", uint64_t{1} << 60), HasSubstr("too few"));
  EXPECT_THAT(Fault(std::string("\4\0\0\0abcd", 8), 2),
              HasSubstr("no length for element 1 of 2"));
  EXPECT_THAT(Fault(std::string("\3\0\0\0ab", 6), 1),
              HasSubstr("a length of 3 for element 0, but only 2 bytes"));
  EXPECT_THAT(Fault("\xff\xff\xff\xff", 1), HasSubstr("4294967295"));
  EXPECT_THAT(Fault(std::string("\1\0\0\0ab", 6), 1),
              HasSubstr("1 bytes more than its 1 element"));
}

}  // namespace
}  // namespace gpupool::server
