#include "engine/import/onnx/file/wire_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

std::string Varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) {
    bytes += static_cast<char>(number | 0x80);
  }
  return bytes + static_cast<char>(number);
}

// Returns a length-delimited field.
std::string Field(int number, const std::string& content) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) +
         Varint(content.size()) + content;
}

TEST(WireCheckTest, AcceptsAModelAndAnEmptyFile) {
  const std::string bytes =
      ModelOfGraph("(float[2] x) => (float[2] y) { y = Relu(x) }")
          .SerializeAsString();
  EXPECT_TRUE(CheckWire(bytes).ok());
  EXPECT_TRUE(CheckWire("").ok());
}

TEST(WireCheckTest, RefusesEveryTruncationThatCutsAField) {
  const std::string bytes =
      Field(7, Field(1, Field(1, "input") + Field(4, "Relu")));
  EXPECT_TRUE(CheckWire(bytes).ok());
  for (size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_FALSE(CheckWire(bytes.substr(0, length)).ok()) << length;
  }
}

TEST(WireCheckTest, RefusesGroupsFieldZeroAndEndlessVarints) {
  EXPECT_FALSE(CheckWire("\x0b").ok());                  // start of a group
  EXPECT_FALSE(CheckWire(std::string("\0\0", 2)).ok());  // field 0
  EXPECT_FALSE(CheckWire(std::string(11, '\xff')).ok());
  EXPECT_FALSE(CheckWire("<html>").ok());
}

TEST(WireCheckTest, RefusesDeepNesting) {
  // A graph in an attribute of a node of a graph ...
  std::string graph;
  for (int i = 0; i < 40; ++i) graph = Field(1, Field(5, Field(6, graph)));
  const absl::Status status = CheckWire(Field(7, graph));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("nest deeper"));
}

TEST(WireCheckTest, RefusesFilesThatWouldGrowInMemory) {
  // Empty nodes of two bytes each.
  std::string nodes;
  for (int i = 0; i < (2 << 20); ++i) nodes += Field(1, "");
  const absl::Status status = CheckWire(Field(7, nodes));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("more memory"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
