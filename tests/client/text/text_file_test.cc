#include "client/text/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace gpupool::client {
namespace {

TEST(ReadTextFileTest, ReadsAllBytes) {
  const std::string path = ::testing::TempDir() + "/text_file_test";
  std::ofstream(path) << "line\n\ttab";
  EXPECT_EQ(*ReadTextFile(path, 100), "line\n\ttab");
}

TEST(ReadTextFileTest, RefusesMoreThanTheLimit) {
  const std::string path = ::testing::TempDir() + "/text_file_test_large";
  std::ofstream(path) << "12345";
  EXPECT_TRUE(ReadTextFile(path, 5).ok());
  EXPECT_EQ(ReadTextFile(path, 4).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReadTextFileTest, NamesTheMissingFile) {
  const absl::Status status = ReadTextFile("/no/such/file", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("/no/such/file"));
}

TEST(ReadTextFileTest, RefusesAFolder) {
  EXPECT_EQ(ReadTextFile("/tmp", 100).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::client
