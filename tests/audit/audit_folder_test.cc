#include "audit/audit_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/server/store/temp_dir.h"

namespace gpupool::audit {
namespace {

using ::testing::HasSubstr;

TEST(AuditFolderTest, FilesComeByNumberAndOthersAreLeftOut) {
  const server::TempDir folder;
  for (const char* name :
       {"audit-00000010.jsonl", "audit-00000002.jsonl", "audit-2.jsonl",
        "audit-00000003.jsonl.gz", "audit-0000000x.jsonl", "other"}) {
    std::ofstream(folder / name) << "x";
  }
  const auto files = FilesIn(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].number, 2u);
  EXPECT_EQ((*files)[1].path, PathOf(folder.path(), 10));
}

TEST(AuditFolderTest, AFolderThatIsMissingIsNotFound) {
  const server::TempDir folder;
  EXPECT_EQ(FilesIn(folder / "none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(AuditFolderTest, ARegularFileIsOpened) {
  const server::TempDir folder;
  std::ofstream(folder / "file") << "x";
  const auto fd = OpenFile(folder / "file", O_RDONLY);
  ASSERT_TRUE(fd.ok()) << fd.status();
  char byte = 0;
  EXPECT_EQ(::read(*fd, &byte, 1), 1);
  ::close(*fd);
}

TEST(AuditFolderTest, AFileThatIsGoneMeanwhileIsNamed) {
  const server::TempDir folder;
  const absl::Status status = OpenFile(folder / "gone", O_RDONLY).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "gone"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("try again"));
}

TEST(AuditFolderTest, AStateFolderStandsForTheLogInIt) {
  const server::TempDir folder;
  EXPECT_EQ(FolderOfLog(folder.path()), folder.path());
  std::filesystem::create_directory(folder / "audit");
  EXPECT_EQ(FolderOfLog(folder.path()), folder / "audit");
}

}  // namespace
}  // namespace gpupool::audit
