#include "server/api/rpc/upload_reactor.h"

#include <gmock/gmock.h>

#include "gpupool/v1/dataset.grpc.pb.h"
#include "tests/server/api/rpc/idle_service.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class CountedUpload : public UploadReactor<v1::UploadDatasetRequest> {
 public:
  explicit CountedUpload(StreamFacts* facts) : facts_(facts) {}
  ~CountedUpload() override { facts_->gone = true; }

 private:
  bool Take(const v1::UploadDatasetRequest&) override {
    ++facts_->steps;
    return true;
  }
  void Complete() override {
    facts_->completed = true;
    End(absl::OkStatus());
  }

  StreamFacts* const facts_;
};

class UploadReactorTest : public IdleService,
                          public v1::DatasetService::CallbackService {
 protected:
  void SetUp() override { Serve(this); }

  grpc::ServerReadReactor<v1::UploadDatasetRequest>* UploadDataset(
      grpc::CallbackServerContext* context, v1::Dataset*) override {
    return CountedUpload::Begin(std::make_shared<CountedUpload>(&facts_),
                                PlaceIn(&registry_, context, Identity{}));
  }
};

TEST_F(UploadReactorTest, AnIdleUploadEndsInWordsAndIsNotTakenForComplete) {
  const auto stub = v1::DatasetService::NewStub(channel_);
  grpc::ClientContext context;
  v1::Dataset response;
  auto writer = stub->UploadDataset(&context, &response);
  ASSERT_TRUE(writer->Write({}));
  ASSERT_TRUE(WaitUntil([&] { return facts_.steps == 1; }));
  ASSERT_TRUE(EndsWhileTimePasses());
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("took no step"));
  EXPECT_FALSE(facts_.completed);
}

TEST_F(UploadReactorTest, TheIdleUploadsPlaceIsForTheNext) {
  const auto stub = v1::DatasetService::NewStub(channel_);
  v1::Dataset response;
  grpc::ClientContext idle_context;
  auto idle = stub->UploadDataset(&idle_context, &response);
  ASSERT_TRUE(idle->Write({}));
  ASSERT_TRUE(WaitUntil([&] { return facts_.steps == 1; }));
  {
    grpc::ClientContext context;
    auto refused = stub->UploadDataset(&context, &response);
    const grpc::Status status = refused->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("limit of one caller"));
  }
  // The refused upload is gone, too.
  ASSERT_TRUE(WaitUntil([&] { return facts_.gone.load(); }));
  facts_.gone = false;
  ASSERT_TRUE(EndsWhileTimePasses());
  EXPECT_FALSE(idle->Finish().ok());
  grpc::ClientContext context;
  auto next = stub->UploadDataset(&context, &response);
  next->WritesDone();
  const grpc::Status status = next->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(facts_.completed);
}

}  // namespace
}  // namespace gpupool::server
