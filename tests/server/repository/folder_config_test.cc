#include "server/repository/folder_config.h"

#include <gmock/gmock.h>

#include "tests/server/repository/repository_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class FolderConfigTest : public RepositoryTest {
 protected:
  absl::StatusOr<inference::ModelConfig> Read() {
    return ReadFolderConfig(*ConfinedFolder::Open(root()), Find("a"));
  }
};

TEST_F(FolderConfigTest, AFolderWithoutAFileHasAnEmptyConfig) {
  Write("a/1/model.onnx", "one");
  const auto config = Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ByteSizeLong(), 0u);
}

TEST_F(FolderConfigTest, TheFileIsRead) {
  Write("a/config.pbtxt", "name: \"a\" max_batch_size: 3");
  const auto config = Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_batch_size(), 3);
}

TEST_F(FolderConfigTest, WhatCannotBeReadIsRefused) {
  Write("a/config.pbtxt", "name: ");
  EXPECT_THAT(std::string(Read().status().message()),
              HasSubstr("cannot be read"));
  Write("a/config.pbtxt", "model_warmup { }");
  EXPECT_THAT(std::string(Read().status().message()),
              HasSubstr("model_warmup is not supported"));
  Remove("a/config.pbtxt");
  Write("a/config.pbtxt/file", "a folder");
  EXPECT_THAT(std::string(Read().status().message()),
              HasSubstr("a/config.pbtxt is no regular file"));
}

}  // namespace
}  // namespace gpupool::server
