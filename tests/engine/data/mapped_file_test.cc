#include "engine/data/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "tests/engine/data/files.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

TEST(MappedFileTest, ShowsTheBytesOfTheFile) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/file";
  files::WriteFile(path, "hello");
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), "hello");
  MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.bytes(), "hello");
  files::WriteFile(path, "");
  EXPECT_EQ(MappedFile::Open(path)->bytes(), "");
}

TEST(MappedFileTest, TellsThatTheFileWasCutOff) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/file";
  files::WriteFile(path, std::string(10000, 'x'));
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->CheckWhole().ok());
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  const absl::Status status = file->CheckWhole();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("from 10000 to 100 bytes"),
            std::string::npos);
}

TEST(MappedFileTest, RefusesWhatIsNoFile) {
  const ScratchFolder folder;
  EXPECT_EQ(MappedFile::Open(folder.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(folder.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(symlink("/etc/passwd", link.c_str()), 0);
  EXPECT_EQ(MappedFile::Open(link).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::engine
