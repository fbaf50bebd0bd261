#include "server/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(StateDirTest, IsMadeForThisUserOnly) {
  TempDir directory;
  const auto state = StateDir::Open(directory / "a/b");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(std::filesystem::status((*state)->path()).permissions(),
            std::filesystem::perms::owner_all);
}

TEST(StateDirTest, SecondHolderIsRefusedWithTheFirstOnesProcess) {
  TempDir directory;
  auto first = StateDir::Open(directory / "state");
  ASSERT_TRUE(first.ok());
  const auto second = StateDir::Open(directory / "state/../state");
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("process " + std::to_string(getpid())));
  first->reset();
  EXPECT_TRUE(StateDir::Open(directory / "state").ok());
}

TEST(StateDirTest, PathThatIsAFileIsRefused) {
  TempDir directory;
  std::ofstream(directory / "file") << "x";
  EXPECT_FALSE(StateDir::Open(directory / "file").ok());
  EXPECT_FALSE(StateDir::Open(directory / "file/below").ok());
}

TEST(StateDirTest, FilesOfTheServerAreMadePrivate) {
  namespace fs = std::filesystem;
  const TempDir directory;
  for (const char* name : {"gpupool.db", "gpupool.db-wal", "mine"}) {
    std::ofstream(directory / name) << "x";
    fs::permissions(directory / name, fs::perms(0644));
  }
  fs::create_directory(directory / "workers");
  fs::permissions(directory / "workers", fs::perms(0755));
  fs::create_symlink("mine", directory / "admin-token");
  ASSERT_TRUE(StateDir::Open(directory.path()).ok());
  const auto mode = [&](const char* name) {
    return fs::status(directory / name).permissions();
  };
  EXPECT_EQ(mode("gpupool.db"), fs::perms(0600));
  EXPECT_EQ(mode("gpupool.db-wal"), fs::perms(0600));
  EXPECT_EQ(mode("workers"), fs::perms(0700));
  EXPECT_EQ(mode("mine"), fs::perms(0644)) << "not by a link, and not ours";
}

TEST(WriteFileAtomicallyTest, TheFileHasTheMode) {
  TempDir directory;
  const std::string path = directory / "secret";
  ASSERT_TRUE(WriteFileAtomically(path, "x", 0600).ok());
  EXPECT_EQ(
      std::filesystem::status(path).permissions(),
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(WriteFileAtomicallyTest, ReplacesTheFileAndLeavesNoOther) {
  TempDir directory;
  const std::string path = directory / "ports.json";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "new");
  EXPECT_EQ(
      std::distance(std::filesystem::directory_iterator(directory.path()), {}),
      1);
  EXPECT_FALSE(WriteFileAtomically(directory / "no/where", "x").ok());
}

}  // namespace
}  // namespace gpupool::server
