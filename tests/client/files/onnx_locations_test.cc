#include "client/files/onnx_locations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Varint(size_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7) {
    bytes += static_cast<char>((number & 127) | 128);
  }
  return bytes + static_cast<char>(number);
}

// Returns a length-delimited field.
std::string Field(size_t number, const std::string& content) {
  return Varint((number << 3) | 2) + Varint(content.size()) + content;
}

std::string StoredTensor(const std::string& location) {
  return Field(8, "name") + Field(13, Field(1, "offset") + Field(2, "16")) +
         Field(13, Field(1, "location") + Field(2, location));
}

TEST(OnnxLocationsTest, FindsInitializersAttributesAndSubgraphs) {
  const std::string inner = Field(5, StoredTensor("c"));
  const std::string node = Field(4, "If") + Field(5, Field(6, inner)) +
                           Field(5, Field(5, StoredTensor("b")));
  const std::string graph = Field(1, node) +
                            Field(5, StoredTensor("folder/a")) +
                            Field(5, StoredTensor("b"));
  const auto found = ExternalLocations(Field(2, "maker") + Field(7, graph));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre("b", "c", "folder/a"));
}

TEST(OnnxLocationsTest, AModelMayHoldAllItsData) {
  const auto found = ExternalLocations(Field(7, Field(5, Field(9, "1234"))));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, IsEmpty());
}

TEST(OnnxLocationsTest, LocationsLeadDownFromTheModel) {
  for (const char* location :
       {"/etc/passwd", "../up", "a/../../b", "", "./a"}) {
    SCOPED_TRACE(location);
    const auto found =
        ExternalLocations(Field(7, Field(5, StoredTensor(location))));
    EXPECT_THAT(found.status().message(),
                HasSubstr("is outside of the model's folder"));
  }
}

TEST(OnnxLocationsTest, WhatIsNoMessageIsRefused) {
  const std::string graph = Field(7, Field(5, StoredTensor("a")));
  EXPECT_FALSE(ExternalLocations(graph.substr(0, graph.size() - 1)).ok());
  EXPECT_FALSE(ExternalLocations("\x07 nothing").ok());
  std::string deep;
  for (int i = 0; i < 20; ++i) deep = Field(1, Field(5, Field(6, deep)));
  EXPECT_TRUE(ExternalLocations(Field(7, deep)).ok());
}

}  // namespace
}  // namespace gpupool::client
