#include "server/api/inference/infer_request.h"

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/api_inference/inference_server.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

class CountingObserver : public ServingObserver {
 public:
  std::unique_ptr<VersionObserver> Observe(const std::string&, uint64_t,
                                           uint32_t) override {
    return nullptr;
  }
  void RequestUnrouted(absl::StatusCode code) override {
    unrouted.push_back(code);
  }
  std::vector<absl::StatusCode> unrouted;
};

class FinishedRequest : public InferRequest {
 public:
  using InferRequest::InferRequest;
  absl::Status Await() {
    return finished_.WaitForNotificationWithTimeout(kPatience)
               ? status_
               : absl::InternalError("no answer");
  }

 private:
  void Finished(const absl::Status& status) override {
    status_ = status;
    finished_.Notify();
  }
  absl::Status status_;
  absl::Notification finished_;
};

class InferRequestTest : public ::testing::Test {
 protected:
  InferContext Context() {
    return {.serving = &server_.serving,
            .observer = &observer_,
            .bytes_in_flight = &bytes_};
  }
  absl::Status Run(const inference::ModelInferRequest& request) {
    FinishedRequest infer(Context());
    infer.Start(request, &response_, absl::InfiniteFuture());
    return infer.Await();
  }
  uint64_t Failed() {
    return server_.serving.registry()
        .FindById(10)
        ->batcher()
        .statistics()
        .Snapshot()
        .fail.count;
  }

  InferenceServer server_;
  CountingObserver observer_;
  BytesInFlight bytes_{1000};
  inference::ModelInferResponse response_;
};

TEST_F(InferRequestTest, WritesOutputsAndGivesItsBytesBack) {
  EXPECT_TRUE(Run(RawRequest({1, 2})).ok());
  EXPECT_THAT(RawOutput(response_), ElementsAre(2, 4));
  EXPECT_EQ(bytes_.used(), 0u);
}

TEST_F(InferRequestTest, HoldsItsBytesUntilItIsAnswered) {
  server_.worker.Pause();
  {
    const auto request = RawRequest({1, 2});
    FinishedRequest infer(Context());
    infer.Start(request, &response_, absl::InfiniteFuture());
    EXPECT_EQ(bytes_.used(), request.ByteSizeLong());
    server_.worker.Resume();
    EXPECT_TRUE(infer.Await().ok());
  }
  EXPECT_EQ(bytes_.used(), 0u);
}

TEST_F(InferRequestTest, AnAnsweredRequestDoesNotKeepItsVersionLoaded) {
  const auto request = RawRequest({1, 2});
  absl::Notification drained;
  FinishedRequest infer(Context());
  infer.Start(request, &response_, absl::InfiniteFuture());
  ASSERT_TRUE(infer.Await().ok());
  server_.serving.VersionDraining(10, [&] { drained.Notify(); });
  // The client may never read its answer.
  EXPECT_TRUE(drained.WaitForNotificationWithTimeout(kPatience));
  infer.Cancel();
}

TEST_F(InferRequestTest, AnUnroutedRequestIsCountedByTheObserver) {
  auto request = RawRequest({1, 2});
  request.set_model_name("cats");
  EXPECT_TRUE(absl::IsNotFound(Run(request)));
  EXPECT_THAT(observer_.unrouted, ElementsAre(absl::StatusCode::kNotFound));
  EXPECT_EQ(Failed(), 0u);
}

TEST_F(InferRequestTest, ARefusedRequestIsCountedByItsVersion) {
  auto request = RawRequest({1, 2});
  request.mutable_inputs(0)->set_name("pixels");
  EXPECT_TRUE(absl::IsInvalidArgument(Run(request)));
  EXPECT_TRUE(observer_.unrouted.empty());
  EXPECT_EQ(Failed(), 1u);
}

TEST_F(InferRequestTest, TheTimeoutParameterShortensTheWait) {
  server_.worker.Pause();
  FinishedRequest first(Context()), second(Context());
  inference::ModelInferResponse responses[2];
  const auto plain = RawRequest({1, 2});
  first.Start(plain, &responses[0], absl::InfiniteFuture());
  second.Start(plain, &responses[1], absl::InfiniteFuture());
  auto hurried = RawRequest({1, 2});
  (*hurried.mutable_parameters())["timeout"].set_int64_param(20'000);
  const absl::Status status = Run(hurried);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  server_.worker.Resume();
  EXPECT_TRUE(first.Await().ok());
  EXPECT_TRUE(second.Await().ok());
}

}  // namespace
}  // namespace gpupool::server
