#include "server/api/transfer/file_chunks.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <fstream>

#include "gpupool/v1/admin.pb.h"
#include "server/api/validation/convert.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using Message = v1::BackUpDatabaseResponse;

class FileChunksTest : public ::testing::Test {
 protected:
  BlobFile FileWith(const std::string& text) {
    const std::string path = directory_ / "file";
    std::ofstream(path, std::ios::binary) << text;
    return BlobFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  TempDir directory_;
};

TEST_F(FileChunksTest, AllBytesGoOutInMessagesOfTheLargestSize) {
  const std::string text =
      std::string(kMaxChunkBytes, 'a') + std::string(kMaxChunkBytes, 'b') + "c";
  FileChunks chunks(FileWith(text), text.size());
  std::string read;
  int messages = 0;
  while (!chunks.done()) {
    const auto message = chunks.Next<Message>("short");
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_LE(message->chunk().size(), kMaxChunkBytes);
    read += message->chunk();
    ++messages;
  }
  EXPECT_EQ(read, text);
  EXPECT_EQ(messages, 3);
}

TEST_F(FileChunksTest, AFileThatEndsEarlyIsDataLoss) {
  FileChunks chunks(FileWith("abc"), 4);
  EXPECT_EQ(chunks.Next<Message>("short")->chunk(), "abc");
  const auto rest = chunks.Next<Message>("the copy ends early");
  EXPECT_EQ(rest.status(), absl::DataLossError("the copy ends early"));
}

TEST_F(FileChunksTest, AnEmptyFileIsDoneAtOnce) {
  EXPECT_TRUE(FileChunks(FileWith(""), 0).done());
}

}  // namespace
}  // namespace gpupool::server
