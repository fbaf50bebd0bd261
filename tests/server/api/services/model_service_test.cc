#include "server/api/services/model_service.h"

#include <gmock/gmock.h>

#include "engine/base/sha256.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "tests/server/api/api_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class ModelServiceTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    stub_ = v1::ModelService::NewStub(channel_);
  }

  // Sends `bytes` in two chunks, announced as `announced`.
  grpc::Status UploadFile(const std::string& bytes,
                          const std::string& announced) {
    grpc::ClientContext context;
    auto writer = stub_->UploadModelFile(&context, &file_);
    v1::UploadModelFileRequest message;
    message.mutable_header()->set_total_bytes(announced.size());
    message.mutable_header()->set_sha256(engine::Sha256Hex(announced));
    writer->Write(message);
    message.set_chunk(bytes.substr(0, 2));
    writer->Write(message);
    message.set_chunk(bytes.substr(2));
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::Status UploadModel(const v1::UploadModelRequest::Header& header,
                           const std::string& weights) {
    grpc::ClientContext context;
    auto writer = stub_->UploadModel(&context, &version_);
    v1::UploadModelRequest message;
    *message.mutable_header() = header;
    writer->Write(message);
    if (!weights.empty()) {
      message.set_chunk(weights);
      writer->Write(message);
    }
    writer->WritesDone();
    return writer->Finish();
  }

  static v1::UploadModelRequest::Header Onnx() {
    v1::UploadModelRequest::Header header;
    header.set_name("net");
    header.mutable_spec()->mutable_onnx()->set_sha256(engine::Sha256Hex("m"));
    header.mutable_spec()->mutable_onnx()->set_bytes(1);
    return header;
  }

  static v1::UploadModelRequest::Header Layers(const std::string& weights) {
    v1::UploadModelRequest::Header header;
    header.set_name("net");
    header.mutable_spec()->add_input_shape(4);
    header.mutable_spec()->add_layers()->mutable_relu();
    header.set_total_bytes(weights.size());
    header.set_sha256(engine::Sha256Hex(weights));
    return header;
  }

  std::unique_ptr<v1::ModelService::Stub> stub_;
  v1::ModelFile file_;
  v1::ModelVersion version_;
};

TEST_F(ModelServiceTest, AFileBecomesABlobWhenItIsWhole) {
  const grpc::Status status = UploadFile("a model", "a model");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(file_.bytes(), 7u);
  EXPECT_EQ(*blobs_->Read(file_.sha256(), 100), "a model");
}

class ModelLimitTest : public ModelServiceTest {
 protected:
  ApiOptions Options() const override {
    ApiOptions options = ModelServiceTest::Options();
    options.limits.model_file_bytes = 7;
    return options;
  }

  static void Refused(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(),
              "the file has 8 bytes, this server takes at most 7; start "
              "gpupoold with a larger --model-limit");
  }
};

TEST_F(ModelLimitTest, AFileMayHaveTheLimitAndNotAByteMore) {
  EXPECT_TRUE(UploadFile("a model", "a model").ok());
  Refused(UploadFile("a model!", "a model!"));
  EXPECT_FALSE(blobs_->Contains(engine::Sha256Hex("a model!")));
}

TEST_F(ModelLimitTest, WeightsMayHaveTheLimitAndNotAByteMore) {
  EXPECT_TRUE(UploadModel(Layers("weights"), "weights").ok());
  Refused(UploadModel(Layers("weights!"), "weights!"));
}

TEST_F(ModelServiceTest, AFileOfOtherBytesIsRefused) {
  EXPECT_EQ(UploadFile("a model", "a Model").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(blobs_->Contains(engine::Sha256Hex("a model")));
  EXPECT_FALSE(blobs_->Contains(engine::Sha256Hex("a Model")));
}

TEST_F(ModelServiceTest, AFileNeedsAHeaderFirst) {
  grpc::ClientContext context;
  auto writer = stub_->UploadModelFile(&context, &file_);
  v1::UploadModelFileRequest message;
  message.set_chunk("x");
  writer->Write(message);
  writer->WritesDone();
  EXPECT_THAT(writer->Finish().error_message(),
              HasSubstr("a chunk came first"));
}

TEST_F(ModelServiceTest, AnOnnxModelBecomesAVersionWithoutChunks) {
  const grpc::Status status = UploadModel(Onnx(), "");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(version_.model(), "net");
  EXPECT_EQ(version_.version(), 1u);
  EXPECT_EQ(version_.job_id(), 0u);
  EXPECT_EQ(version_.serving().max_batch_size(), 32u);
  EXPECT_TRUE(store_->GetVersion("net", 1).ok());
  EXPECT_THAT(UploadModel(Onnx(), "w").error_message(),
              HasSubstr("brings its own weights"));
}

TEST_F(ModelServiceTest, LayersComeWithTheirWeights) {
  const grpc::Status status = UploadModel(Layers("weights"), "weights");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(version_.manifest_sha256(), engine::Sha256Hex("weights"))
      << "what the stand-in for the worker answers";
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("weights")));
  EXPECT_EQ(UploadModel(Layers("weights"), "other").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(UploadModel(Layers(""), "").error_message(),
              HasSubstr("total_bytes is 0"));
}

TEST_F(ModelServiceTest, AnExportStreamsTheFileThatAWorkerWrote) {
  ASSERT_TRUE(UploadModel(Onnx(), "").ok());
  const std::string bytes(3 << 20, 'b');
  workers_.exported = *blobs_->Put(bytes);
  workers_.exported_bytes = bytes.size();
  grpc::ClientContext context;
  v1::ExportModelRequest request;
  request.set_model("net");
  request.set_format(v1::ExportModelRequest::ONNX);
  auto reader = stub_->ExportModel(&context, request);
  v1::ExportModelResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.header().version(), 1u);
  EXPECT_EQ(message.header().total_bytes(), bytes.size());
  std::string received;
  while (reader->Read(&message)) received += message.chunk();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(received, bytes);
}

TEST_F(ModelServiceTest, AnExportNeedsAKnownModelAndFormat) {
  const auto status = [&](const v1::ExportModelRequest& request) {
    grpc::ClientContext context;
    auto reader = stub_->ExportModel(&context, request);
    v1::ExportModelResponse message;
    EXPECT_FALSE(reader->Read(&message));
    return reader->Finish();
  };
  v1::ExportModelRequest request;
  request.set_model("net");
  EXPECT_THAT(status(request).error_message(),
              HasSubstr("ONNX or SAFETENSORS"));
  request.set_format(v1::ExportModelRequest::SAFETENSORS);
  EXPECT_EQ(status(request).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ModelServiceTest, APlanIsForThePrecisionThatIsAskedFor) {
  v1::PlanModelRequest request;
  request.mutable_spec()->add_input_shape(4);
  request.mutable_spec()->add_layers()->mutable_relu();
  request.set_precision(v1::BF16);
  v1::PlanModelResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub_->PlanModel(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(workers_.planned.precision(), v1::BF16);
  EXPECT_EQ(workers_.planned.max_batch_size(), 32u);
  request.set_precision(static_cast<v1::Precision>(99));
  grpc::ClientContext context;
  EXPECT_THAT(stub_->PlanModel(&context, request, &response).error_message(),
              HasSubstr("request.precision is 99"));
}

}  // namespace
}  // namespace gpupool::server
