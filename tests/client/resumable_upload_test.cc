#include "client/resumable_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

class UploadTriesTest : public ::testing::Test {
 protected:
  UploadTriesTest() {
    ClientOptions options;
    options.address = server_.address();
    options.upload_notice = [this](const std::string& line) {
      notices_.push_back(line);
    };
    // Longer than any test takes, so that only the number of tries ends them.
    options.retry_window = absl::Minutes(10);
    options.upload_stop = stop_.get_token();
    client_ = *Client::Create(options);
  }

  // Makes the server keep bytes of the file.
  v1::Upload& Keep(uint64_t bytes) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    v1::Upload& upload = server_.state.kept_uploads[file_.sha256];
    upload.set_sha256(file_.sha256);
    upload.set_total_bytes(file_.bytes);
    upload.set_bytes(bytes);
    return upload;
  }

  v1::UploadPart PartOf(UploadTries& tries) {
    const auto part = tries.PartOf("a.csv", file_);
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() ? *part : v1::UploadPart();
  }

  FakeServer server_;
  std::stop_source stop_;
  std::vector<std::string> notices_;
  std::unique_ptr<Client> client_;
  FileFacts file_ = {.bytes = kLeastResumedBytes,
                     .sha256 = std::string(64, 'a')};
};

TEST_F(UploadTriesTest, BeginsAtZeroIfTheServerKeepsNothing) {
  UploadTries tries(*client_);
  const v1::UploadPart part = PartOf(tries);
  EXPECT_EQ(part.upload_key(), file_.sha256);
  EXPECT_EQ(part.offset(), 0u);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(UploadTriesTest, GoesOnWhereTheKeptBytesEnd) {
  Keep(3 << 20);
  UploadTries tries(*client_);
  EXPECT_EQ(PartOf(tries).offset(), 3u << 20);
  EXPECT_THAT(notices_,
              ::testing::ElementsAre("a.csv: resumed at 3.0 MiB of 4.0 MiB"));
}

TEST_F(UploadTriesTest, SmallFilesHaveNoKeyAndAskNothing) {
  Keep(5);
  file_.bytes = kLeastResumedBytes - 1;
  UploadTries tries(*client_);
  EXPECT_EQ(PartOf(tries).upload_key(), "");
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.calls["GetUpload"], 0);
}

TEST_F(UploadTriesTest, OnlyTheFirstOfEqualFilesHasAKey) {
  UploadTries tries(*client_);
  EXPECT_EQ(PartOf(tries).upload_key(), file_.sha256);
  EXPECT_EQ(PartOf(tries).upload_key(), "");
  tries.Start();
  EXPECT_EQ(PartOf(tries).upload_key(), file_.sha256);
}

TEST_F(UploadTriesTest, BytesOfAnotherFileAreNotTaken) {
  Keep(5).set_sha256(std::string(64, 'b'));
  UploadTries tries(*client_);
  EXPECT_EQ(PartOf(tries).offset(), 0u);
  tries.Start();
  Keep(5).set_total_bytes(file_.bytes + 1);
  EXPECT_EQ(PartOf(tries).offset(), 0u);
}

TEST_F(UploadTriesTest, AnEarlierServerGetsNoKey) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["GetUpload"] = {
        absl::UnimplementedError("unknown service")};
  }
  UploadTries tries(*client_);
  EXPECT_EQ(PartOf(tries).upload_key(), "");
}

TEST_F(UploadTriesTest, AStopEndsTheWaitForAnotherStream) {
  Keep(5).set_in_use(true);
  stop_.request_stop();
  UploadTries tries(*client_);
  EXPECT_TRUE(absl::IsCancelled(tries.PartOf("a.csv", file_).status()));
  EXPECT_TRUE(absl::IsCancelled(tries.CheckStop()));
  EXPECT_FALSE(tries.Again(absl::UnavailableError("gone"), 1));
}

TEST_F(UploadTriesTest, OnlyUnavailableAndAbortedAreTriedAgain) {
  UploadTries tries(*client_);
  EXPECT_FALSE(tries.Again(absl::AbortedError("no key"), 0));
  PartOf(tries);
  EXPECT_TRUE(tries.Again(absl::UnavailableError("restarting"), 1));
  EXPECT_TRUE(tries.Again(absl::AbortedError("fewer bytes"), 1));
  EXPECT_FALSE(tries.Again(absl::InvalidArgumentError("line 3"), 2));
  EXPECT_THAT(notices_, ::testing::ElementsAre(::testing::HasSubstr(
                            "the upload broke (restarting)")));
}

TEST_F(UploadTriesTest, AbortedTriesThatGetNowhereEnd) {
  UploadTries tries(*client_);
  PartOf(tries);
  EXPECT_TRUE(tries.Again(absl::AbortedError("again"), 0));
  EXPECT_TRUE(tries.Again(absl::AbortedError("again"), 0));
  EXPECT_TRUE(tries.Again(absl::AbortedError("again"), 0));
  EXPECT_FALSE(tries.Again(absl::AbortedError("again"), 0));
}

}  // namespace
}  // namespace gpupool::client
