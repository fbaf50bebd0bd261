#include "engine/import/onnx/file/external_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::onnx_import {
namespace {

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(ExternalFilesTest, ReadsBeneathTheFolder) {
  const ScratchFolder folder;
  Write(folder.path() + "/model/data/weights.bin", "0123456789");
  const auto files = ExternalFiles::Beneath(folder.path() + "/model");
  EXPECT_EQ(*files.Size("data/weights.bin"), 10u);
  char bytes[3];
  ASSERT_TRUE(files
                  .Read("data/weights.bin", 4,
                        absl::MakeSpan(reinterpret_cast<std::byte*>(bytes), 3))
                  .ok());
  EXPECT_EQ(std::string(bytes, 3), "456");
}

TEST(ExternalFilesTest, NothingLeavesTheFolder) {
  const ScratchFolder folder;
  Write(folder.path() + "/secret", "secret");
  Write(folder.path() + "/model/inner/file", "fine");
  fs::create_symlink("../secret", folder.path() + "/model/link");
  fs::create_directory_symlink("..", folder.path() + "/model/up");
  fs::create_symlink("inner/file", folder.path() + "/model/inside");
  const auto files = ExternalFiles::Beneath(folder.path() + "/model");
  for (const std::string& location :
       {std::string("../secret"), folder.path() + "/secret",
        std::string("inner/../../secret"), std::string("link"),
        std::string("up/secret"), std::string("inside"), std::string(""),
        std::string("."), std::string("inner"),
        std::string("inner/file\0x", 12), std::string("/proc/self/mem")}) {
    EXPECT_EQ(files.Size(location).status().code(),
              absl::StatusCode::kInvalidArgument)
        << location;
  }
}

TEST(ExternalFilesTest, NeverWaitsForAPipe) {
  const ScratchFolder folder;
  ASSERT_EQ(mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ExternalFiles::Beneath(folder.path()).Size("pipe").ok());
}

TEST(ExternalFilesTest, AListHoldsNothingElse) {
  const ScratchFolder folder;
  Write(folder.path() + "/blob", "abc");
  Write(folder.path() + "/other", "abc");
  const auto files =
      ExternalFiles::Listed({{"weights.bin", folder.path() + "/blob"}});
  EXPECT_EQ(*files.Size("weights.bin"), 3u);
  EXPECT_FALSE(files.Size("other").ok());
  EXPECT_FALSE(files.Size(folder.path() + "/other").ok());
  EXPECT_FALSE(ExternalFiles().Size("weights.bin").ok());
}

TEST(ExternalFilesTest, AFileThatEndsTooEarlyIsDataLoss) {
  const ScratchFolder folder;
  Write(folder.path() + "/blob", "abc");
  std::byte bytes[4];
  EXPECT_EQ(ExternalFiles::Beneath(folder.path())
                .Read("blob", 0, absl::MakeSpan(bytes))
                .code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
