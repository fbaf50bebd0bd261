#include "server/api/services/upload_service.h"

#include <gmock/gmock.h>

#include "engine/base/sha256.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "gpupool/v1/upload.grpc.pb.h"
#include "tests/server/api/api_fixture.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class UploadServiceTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    uploads_ = v1::UploadService::NewStub(channel_);
    models_ = v1::ModelService::NewStub(channel_);
  }

  grpc::Status Get(const std::string& key) {
    grpc::ClientContext context;
    v1::GetUploadRequest request;
    request.set_upload_key(key);
    upload_.Clear();
    return uploads_->GetUpload(&context, request, &upload_);
  }

  // Returns a header for the six bytes "abcdef".
  v1::UploadModelFileRequest Header(uint64_t offset) const {
    v1::UploadModelFileRequest message;
    message.mutable_header()->set_total_bytes(6);
    message.mutable_header()->set_sha256(engine::Sha256Hex("abcdef"));
    message.mutable_header()->mutable_part()->set_upload_key(key_);
    message.mutable_header()->mutable_part()->set_offset(offset);
    return message;
  }

  static v1::UploadModelFileRequest Chunk(const std::string& bytes) {
    v1::UploadModelFileRequest message;
    message.set_chunk(bytes);
    return message;
  }

  // Sends the bytes after a header, and ends the stream.
  grpc::Status Send(uint64_t offset, const std::string& bytes) {
    grpc::ClientContext context;
    auto writer = models_->UploadModelFile(&context, &file_);
    writer->Write(Header(offset));
    writer->Write(Chunk(bytes));
    writer->WritesDone();
    return writer->Finish();
  }

  // Sends the bytes and goes away when the server has them.
  void Break(const std::string& bytes) {
    grpc::ClientContext context;
    auto writer = models_->UploadModelFile(&context, &file_);
    writer->Write(Header(0));
    writer->Write(Chunk(bytes));
    ASSERT_TRUE(WaitUntil(
        [&] { return Get(key_).ok() && upload_.bytes() == bytes.size(); }));
    EXPECT_TRUE(upload_.in_use());
    EXPECT_FALSE(upload_.has_expire_time());
    context.TryCancel();
    writer->Finish();
    ASSERT_TRUE(WaitUntil([&] { return Get(key_).ok() && !upload_.in_use(); }));
  }

  const std::string key_ = std::string(64, 'a');
  std::unique_ptr<v1::UploadService::Stub> uploads_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  v1::ModelFile file_;
  v1::Upload upload_;
};

TEST_F(UploadServiceTest, TellsWhatIsKeptOfABrokenUpload) {
  Break("abc");
  EXPECT_EQ(upload_.upload_key(), key_);
  EXPECT_EQ(upload_.sha256(), engine::Sha256Hex("abcdef"));
  EXPECT_EQ(upload_.total_bytes(), 6u);
  EXPECT_EQ(upload_.bytes(), 3u);
  EXPECT_TRUE(upload_.has_expire_time());
  EXPECT_FALSE(blobs_->Contains(engine::Sha256Hex("abcdef")));
}

TEST_F(UploadServiceTest, AnUploadThatGoesOnLeavesNothing) {
  Break("abc");
  const grpc::Status status = Send(3, "def");
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("abcdef")));
  ASSERT_TRUE(WaitUntil(
      [&] { return Get(key_).error_code() == grpc::StatusCode::NOT_FOUND; }));
}

TEST_F(UploadServiceTest, UnknownAndMalformedKeysAreErrors) {
  EXPECT_EQ(Get(key_).error_code(), grpc::StatusCode::NOT_FOUND);
  const grpc::Status status = Get("../gpupool.db");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("hex digits"));
}

TEST_F(UploadServiceTest, OffsetsThatDoNotFitAreErrors) {
  EXPECT_EQ(Send(7, "x").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Send(UINT64_MAX, "x").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Send(3, "def").error_code(), grpc::StatusCode::ABORTED);
  Break("abX");
  EXPECT_EQ(Send(4, "ef").error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Send(3, "defg").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(WaitUntil([&] { return Get(key_).ok() && !upload_.in_use(); }));
  const grpc::Status overlapping = Send(2, "cdef");
  EXPECT_TRUE(overlapping.ok()) << overlapping.error_message();
}

}  // namespace
}  // namespace gpupool::server
