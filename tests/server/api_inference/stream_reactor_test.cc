#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/api/inference/infer_reactors.h"
#include "tests/server/api_inference/inference_server.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

inference::ModelInferRequest Numbered(int id) {
  auto request = RawRequest({static_cast<float>(id), 0});
  request.set_id(std::to_string(id));
  return request;
}

TEST(InferStreamTest, ResponsesComeInTheOrderOfTheRequests) {
  InferenceServer server;
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  constexpr int kRequests = 200;  // more than are read ahead
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) stream->Write(Numbered(i));
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse response;
  int next = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), std::to_string(next));
    EXPECT_THAT(RawOutput(response.infer_response()), ElementsAre(2 * next, 0));
    EXPECT_TRUE(response.infer_response()
                    .parameters()
                    .at("triton_final_response")
                    .bool_param());
    ++next;
  }
  writer.join();
  EXPECT_EQ(next, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

// Hits are answered at once, the others later.
TEST(InferStreamTest, AnswersFromTheCacheKeepTheOrderOfTheRequests) {
  InferenceServer server;
  server.serving.SetCaching("digits", true);
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  constexpr int kRequests = 200;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      auto request = Numbered(i % 7);
      request.set_id(std::to_string(i));
      stream->Write(request);
    }
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse response;
  int next = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.infer_response().id(), std::to_string(next));
    EXPECT_THAT(RawOutput(response.infer_response()),
                ElementsAre(2 * (next % 7), 0));
    ++next;
  }
  writer.join();
  EXPECT_EQ(next, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(server.cache.usage().answers, 7u);
}

TEST(InferStreamTest, AnErrorTravelsInTheMessageAndTheStreamStaysOpen) {
  InferenceServer server;
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  auto wrong = Numbered(1);
  wrong.set_model_name("cats");
  stream->Write(wrong);
  stream->Write(Numbered(2));
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("'cats' is not found"));
  EXPECT_EQ(response.infer_response().id(), "1");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "2");
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(InferStreamTest, InStrictModeTheFirstErrorEndsTheStream) {
  InferenceServer server;
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = server.stub->ModelStreamInfer(&context);
  auto wrong = Numbered(1);
  wrong.set_model_name("cats");
  stream->Write(wrong);
  inference::ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::NOT_FOUND);
}

TEST(InferStreamTest, CancellingTheStreamDropsItsRequests) {
  InferenceServer server;
  server.worker.Pause();
  {
    grpc::ClientContext context;
    auto stream = server.stub->ModelStreamInfer(&context);
    for (int i = 0; i < 8; ++i) stream->Write(Numbered(i));
    const auto version = server.serving.registry().FindById(10);
    ASSERT_TRUE(
        WaitUntil([&] { return version->batcher().queue_length() >= 6; }));
    context.TryCancel();
    EXPECT_TRUE(
        WaitUntil([&] { return version->batcher().queue_length() == 0; }));
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
  server.worker.Resume();
}

}  // namespace
}  // namespace gpupool::server
