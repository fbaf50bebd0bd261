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

bool IsFinal(const inference::ModelStreamInferResponse& response) {
  return response.infer_response()
      .parameters()
      .at("triton_final_response")
      .bool_param();
}

TEST(InferStreamTest, ADecoupledVersionGivesAResponseForEachRow) {
  InferenceServer server;
  server.serving.VersionReady(LoopVersion(), "cpu:0");
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  auto request = LoopRequest({1, 2});
  request.set_id("a");
  (*request.mutable_parameters())["triton_enable_empty_final_response"]
      .set_bool_param(true);
  stream->Write(request);
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  for (const float row : {2.0F, 4.0F}) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), "a");
    EXPECT_EQ(response.infer_response().model_name(), "loop");
    EXPECT_THAT(RawOutput(response.infer_response()), ElementsAre(row));
    EXPECT_THAT(response.infer_response().outputs(0).shape(), ElementsAre(1));
    EXPECT_FALSE(IsFinal(response));
  }
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().outputs_size(), 0);
  EXPECT_EQ(response.infer_response().id(), "a");
  EXPECT_TRUE(IsFinal(response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(InferStreamTest, TheLastResponseWithoutOutputsComesOnlyIfItIsWanted) {
  InferenceServer server;
  server.serving.VersionReady(LoopVersion(), "cpu:0");
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  constexpr int kRequests = 100;  // more than are read ahead
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) stream->Write(LoopRequest({1, 2}));
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse response;
  int responses = 0;
  while (stream->Read(&response)) {
    EXPECT_FALSE(IsFinal(response));
    ++responses;
  }
  writer.join();
  EXPECT_EQ(responses, 2 * kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(InferStreamTest, OtherRequestsDoNotWaitForADecoupledOne) {
  InferenceServer server;
  FakeWorker other;
  other.Pause();
  server.serving.VersionReady(LoopVersion(), "cpu:0");
  const auto version = server.serving.registry().FindById(11);
  version->batcher().SetRing(other.ring());
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  stream->Write(LoopRequest({1, 2}));
  stream->Write(Numbered(7));
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "7");
  EXPECT_TRUE(IsFinal(response));
  other.Resume();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().model_name(), "loop");
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(InferStreamTest, AnErrorOfADecoupledVersionIsFinal) {
  InferenceServer server;
  server.serving.VersionReady(LoopVersion(), "cpu:0");
  grpc::ClientContext context;
  auto stream = server.stub->ModelStreamInfer(&context);
  stream->Write(LoopRequest({1, 2, 3, 4}));
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_NE(response.error_message(), "");
  EXPECT_TRUE(IsFinal(response));
  EXPECT_FALSE(stream->Read(&response));
}

TEST(InferStreamTest, AUnaryCallToADecoupledVersionIsRefused) {
  InferenceServer server;
  server.serving.VersionReady(LoopVersion(), "cpu:0");
  grpc::ClientContext context;
  inference::ModelInferResponse response;
  const grpc::Status status =
      server.stub->ModelInfer(&context, LoopRequest({1, 2}), &response);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("ModelInfer RPC doesn't support models with decoupled "
                        "transaction policy"));
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
