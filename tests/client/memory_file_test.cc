#include "client/memory_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

class MemoryFileTest : public ::testing::Test {
 protected:
  MemoryFileTest() {
    client_ = *Client::Create({.address = server_.address()});
    request_.set_device("cpu:0");
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  v1::DumpMemoryRequest request_;
};

TEST_F(MemoryFileTest, WritesTheChunksAsOneFile) {
  const std::string path =
      ::testing::TempDir() + "/memory_file_" + std::to_string(::getpid());
  const auto bytes = DumpMemory(*client_, request_, path);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->bytes, 5u);
  EXPECT_FALSE(bytes->cut_after.has_value());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "cpu:0");
  EXPECT_NE(::access((path + ".part").c_str(), F_OK), 0);
  ::unlink(path.c_str());
}

TEST_F(MemoryFileTest, ADumpWithoutSegmentsLeavesNoFile) {
  const std::string path =
      ::testing::TempDir() + "/memory_file_" + std::to_string(::getpid());
  const auto bytes = DumpMemory(*client_, request_, path, DumpForm::kSegments);
  EXPECT_TRUE(absl::IsDataLoss(bytes.status())) << bytes.status();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  EXPECT_NE(::access((path + ".part").c_str(), F_OK), 0);
}

TEST_F(MemoryFileTest, APlaceThatCannotBeWrittenIsAnError) {
  const auto bytes = DumpMemory(*client_, request_, "/nowhere/memory");
  EXPECT_TRUE(absl::IsNotFound(bytes.status())) << bytes.status();
}

}  // namespace
}  // namespace gpupool::client
