#include "engine/data/column_buffer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

std::string BytesOf(const Column& column, size_t size) {
  return {column.data, size};
}

TEST(ColumnBufferTest, KeepsBytesInMemory) {
  ColumnBuffer buffer;
  ASSERT_TRUE(buffer.Reserve(5).ok());
  ASSERT_TRUE(buffer.Append({"hello", 5}).ok());
  Column column;
  ASSERT_TRUE(buffer.MoveTo(column).ok());
  EXPECT_EQ(BytesOf(column, 5), "hello");
  EXPECT_EQ(column.file, nullptr);
}

TEST(ColumnBufferTest, MovesToAFileWithoutANameAtAnyTime) {
  const ScratchFolder folder;
  ColumnBuffer buffer;
  ASSERT_TRUE(buffer.Append({"one ", 4}).ok());
  ASSERT_TRUE(buffer.MoveToDisk(folder.path()).ok());
  const std::string many(3 << 20, 'x');
  ASSERT_TRUE(buffer.Append(many).ok());
  ASSERT_TRUE(buffer.Append({" two", 4}).ok());
  Column column;
  ASSERT_TRUE(buffer.MoveTo(column).ok());
  EXPECT_TRUE(BytesOf(column, many.size() + 8) == "one " + many + " two");
  EXPECT_NE(column.file, nullptr);
  EXPECT_EQ(column.host_bytes(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()))
      << "a killed process leaves nothing";
}

TEST(ColumnBufferTest, ClassesAreAColumnInMemoryOrOnTheDisk) {
  const ScratchFolder folder;
  for (const std::string& place : {std::string(), folder.path()}) {
    const auto column = ColumnOfClasses({2, 0, 1}, place);
    ASSERT_TRUE(column.ok()) << column.status();
    EXPECT_EQ(column->rows, 3u);
    EXPECT_EQ(column->type, ElementType::kInt64);
    EXPECT_EQ(column->facts.class_count(), 3u);
    EXPECT_EQ(column->host_bytes(), place.empty() ? 24u : 0u);
  }
}

TEST(ColumnBufferTest, AMissingFolderIsNamed) {
  ColumnBuffer buffer;
  const absl::Status status = buffer.MoveToDisk("/no/such/folder");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("/no/such/folder"), std::string::npos);
}

TEST(ColumnBufferTest, MoreMemoryThanThereIsIsRefused) {
  ColumnBuffer buffer;
  EXPECT_EQ(buffer.Reserve(~uint64_t{0}).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace gpupool::engine
