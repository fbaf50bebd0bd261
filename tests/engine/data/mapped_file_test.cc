#include "engine/data/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

TEST(MappedFileTest, ShowsTheBytesOfTheFile) {
  const std::string path = testing::TempDir() + "/mapped_file_test";
  files::WriteFile(path, "hello");
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), "hello");
  MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.bytes(), "hello");
  files::WriteFile(path, "");
  EXPECT_EQ(MappedFile::Open(path)->bytes(), "");
}

TEST(MappedFileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(MappedFile::Open(testing::TempDir() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string link = testing::TempDir() + "/mapped_file_link";
  unlink(link.c_str());
  ASSERT_EQ(symlink("/etc/passwd", link.c_str()), 0);
  EXPECT_EQ(MappedFile::Open(link).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::engine
