#include "client/upload_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/model_files.h"
#include "client/upload.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

class UploadReadingTest : public ::testing::Test {
 protected:
  UploadReadingTest() {
    folder_ = ::testing::TempDir() + "/upload_reading_" +
              std::to_string(::getpid()) + "_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    client_ = *Client::Create(
        {.address = server_.address(),
         .upload_stop = stop_.get_token(),
         .upload_reading = [this](const std::string&, uint64_t read,
                                  uint64_t total) {
           told_.push_back(read);
           total_ = total;
         }});
  }
  ~UploadReadingTest() override { std::filesystem::remove_all(folder_); }

  // Makes a file of zeros, which takes no room on the disk.
  std::string Zeros(const std::string& name, uint64_t bytes) {
    std::string path = folder_ + "/" + name;
    std::ofstream(path) << "";
    std::filesystem::resize_file(path, bytes);
    return path;
  }

  void Limit(uint64_t bytes) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.upload_limit_bytes = bytes;
  }

  int Calls(const std::string& rpc) {
    absl::MutexLock lock(&server_.state.mutex);
    return server_.state.calls[rpc];
  }

  FakeServer server_;
  std::stop_source stop_;
  std::unique_ptr<Client> client_;
  std::string folder_;
  std::vector<uint64_t> told_;
  uint64_t total_ = 0;
};

constexpr uint64_t kNineGibibytes = uint64_t{9} << 30;

TEST_F(UploadReadingTest, TooLargeDatasetsAreRefusedBeforeTheyAreRead) {
  Limit(uint64_t{8} << 30);
  const DatasetUpload upload = {.name = "sp",
                                .file = Zeros("s.txt", kNineGibibytes)};
  for (const absl::Status& status :
       {UploadDataset(*client_, upload, nullptr).status(),
        EnsureDataset(*client_, upload, nullptr).status()}) {
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("limit of 8589934592 bytes"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("/s.txt has 9663676416); divide it"));
  }
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(Calls("UploadDataset"), 0);
}

TEST_F(UploadReadingTest, TheFilesOfADatasetAreAddedUp) {
  Limit(3 * kLongFileBytes);
  const FileSize large = {"large", 2 * kLongFileBytes};
  const FileSize small = {"small", kLongFileBytes};
  EXPECT_TRUE(CheckDatasetSize(*client_, {large, small}).ok());
  const absl::Status status =
      CheckDatasetSize(*client_, {large, small, {"one", 1}});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("(file large has"));
  EXPECT_TRUE(absl::IsResourceExhausted(
      CheckDatasetSize(*client_, {large, {"hostile", UINT64_MAX}})));
}

TEST_F(UploadReadingTest, EachFileOfAModelHasTheLimit) {
  Limit(kLongFileBytes);
  const FileSize file = {"weights", kLongFileBytes};
  EXPECT_TRUE(CheckModelFileSizes(*client_, {file, file}).ok());
  const absl::Status status =
      CheckModelFileSizes(*client_, {file, {"large", kLongFileBytes + 1}});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(),
            "the file large has 67108865 bytes, this server takes at most "
            "67108864; start gpupoold with a larger --model-limit");
}

TEST_F(UploadReadingTest, WeightsAreRefusedBeforeTheyAreRead) {
  Limit(kLongFileBytes);
  v1::ModelSpec model;
  model.mutable_weights()->set_file(Zeros("w.safetensors", kNineGibibytes));
  const absl::Status status = UploadModelFiles(*client_, "", nullptr, model);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(told_.empty());
}

TEST_F(UploadReadingTest, ShortFilesAndUnknownLimitsAreLeftToTheServer) {
  EXPECT_TRUE(CheckDatasetSize(*client_, {{"large", kNineGibibytes}}).ok())
      << "a server that tells no limit";
  EXPECT_EQ(Calls("GetServerInfo"), 1);
  Limit(1);
  EXPECT_TRUE(CheckDatasetSize(*client_, {{"short", 2}}).ok());
  EXPECT_TRUE(CheckModelFileSizes(*client_, {{"short", 2}}).ok());
  EXPECT_EQ(Calls("GetServerInfo"), 1);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["GetServerInfo"] = {
        absl::PermissionDeniedError("not for you")};
  }
  EXPECT_TRUE(CheckDatasetSize(*client_, {{"large", kNineGibibytes}}).ok());
}

TEST_F(UploadReadingTest, LongFilesTellOncePerPercentHowFarTheyAre) {
  const std::string path = Zeros("long", kLongFileBytes);
  const auto facts = DescribeForUpload(*client_, path);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->bytes, kLongFileBytes);
  EXPECT_EQ(facts->sha256, DescribeFile(path)->sha256);
  ASSERT_EQ(told_.size(), 64u) << "a chunk is more than a percent";
  EXPECT_EQ(told_.front(), 1u << 20);
  EXPECT_EQ(told_.back(), kLongFileBytes);
  EXPECT_EQ(total_, kLongFileBytes);
  told_.clear();
  EXPECT_TRUE(DescribeForUpload(*client_, Zeros("short", 1 << 20)).ok());
  EXPECT_TRUE(told_.empty());
}

TEST_F(UploadReadingTest, AStopEndsTheReading) {
  stop_.request_stop();
  const absl::Status status =
      DescribeForUpload(*client_, Zeros("long", kNineGibibytes)).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was interrupted"));
}

}  // namespace
}  // namespace gpupool::client
