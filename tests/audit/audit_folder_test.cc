#include "audit/audit_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/server/store/temp_dir.h"

namespace gpupool::audit {
namespace {

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

TEST(AuditFolderTest, AStateFolderStandsForTheLogInIt) {
  const server::TempDir folder;
  EXPECT_EQ(FolderOfLog(folder.path()), folder.path());
  std::filesystem::create_directory(folder / "audit");
  EXPECT_EQ(FolderOfLog(folder.path()), folder / "audit");
}

}  // namespace
}  // namespace gpupool::audit
