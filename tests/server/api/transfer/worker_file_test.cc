#include "server/api/transfer/worker_file.h"

#include <gmock/gmock.h>

#include "gpupool/v1/device.grpc.pb.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "server/api/validation/convert.h"
#include "tests/server/api/api_fixture.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

class WorkerFileTest : public ApiFixture {
 protected:
  // Returns the concatenated chunks of a dump.
  grpc::Status Dump(const std::string& device, std::string& bytes) {
    grpc::ClientContext context;
    v1::DumpMemoryRequest request;
    request.set_device(device);
    auto reader =
        v1::DeviceService::NewStub(channel_)->DumpMemory(&context, request);
    v1::DumpMemoryResponse message;
    while (reader->Read(&message)) bytes += message.chunk();
    return reader->Finish();
  }
  // Returns the trace of a profile, and the number of steps that it says.
  grpc::Status Profile(uint64_t id, uint32_t steps, std::string& bytes,
                       uint32_t& made) {
    return ProfileOf({id, steps, 0}, bytes, made);
  }
  struct Asked {
    uint64_t id;
    uint32_t steps;
    uint32_t recorded;
  };
  grpc::Status ProfileOf(const Asked& asked, std::string& bytes,
                         uint32_t& made) {
    const auto [id, steps, recorded] = asked;
    grpc::ClientContext context;
    v1::ProfileJobRequest request;
    request.set_id(id);
    request.set_steps(steps);
    request.set_recorded(recorded);
    auto reader =
        v1::JobService::NewStub(channel_)->ProfileJob(&context, request);
    v1::ProfileJobResponse message;
    while (reader->Read(&message)) {
      if (message.steps() > 0) made = message.steps();
      bytes += message.chunk();
    }
    return reader->Finish();
  }
};

TEST_F(WorkerFileTest, TheFileComesInChunksAndIsNotKept) {
  const std::string file(kMaxChunkBytes + 1000, 'x');
  const auto blob = blobs_->Put(file);
  ASSERT_TRUE(blob.ok()) << blob.status();
  workers_.exported = *blob;
  workers_.exported_bytes = file.size();
  std::string bytes;
  const grpc::Status status = Dump("cpu:0", bytes);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(bytes, file);
  EXPECT_FALSE(blobs_->Contains(*blob));
  // The file is gone, so the next dump must be written anew.
  EXPECT_EQ(Dump("cpu:0", bytes).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(WorkerFileTest, AFileThatEndsEarlyIsDataLoss) {
  workers_.exported = *blobs_->Put("short");
  workers_.exported_bytes = 100;
  std::string bytes;
  EXPECT_EQ(Dump("cpu:0", bytes).error_code(), grpc::StatusCode::DATA_LOSS);
}

TEST_F(WorkerFileTest, AProfileComesInChunksWithItsNumberOfSteps) {
  AddDataset();
  const worker::v1::StartJob job = StartJob();
  const std::string file(kMaxChunkBytes + 1000, 'x');
  workers_.exported = *blobs_->Put(file);
  workers_.exported_bytes = file.size();
  std::string bytes;
  uint32_t made = 0;
  const grpc::Status status = Profile(job.job_id(), 0, bytes, made);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(bytes, file);
  EXPECT_EQ(made, 5u) << "when the client does not say";
  EXPECT_FALSE(blobs_->Contains(workers_.exported));
}

TEST_F(WorkerFileTest, ARecordedProfileIsKept) {
  AddDataset();
  const worker::v1::StartJob job = StartJob();
  worker::v1::Report report;
  v1::RecordedProfile& profile = *report.mutable_profile();
  profile.set_cycle(2);
  profile.set_steps(3);
  profile.set_sha256(*blobs_->Put("a trace"));
  profile.set_bytes(7);
  Report(job, report);
  ASSERT_TRUE(WaitUntil([&] {
    return !store_->GetJob(job.job_id())->recorded_profiles().empty();
  }));
  for (int i = 0; i < 2; ++i) {
    std::string bytes;
    uint32_t made = 0;
    const grpc::Status status = ProfileOf({job.job_id(), 0, 2}, bytes, made);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(bytes, "a trace");
    EXPECT_EQ(made, 3u);
  }
  ASSERT_TRUE(blobs_->Delete(profile.sha256()).ok());
  std::string bytes;
  uint32_t made = 0;
  EXPECT_EQ(ProfileOf({job.job_id(), 0, 2}, bytes, made).error_code(),
            grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(ProfileOf({job.job_id(), 0, 1}, bytes, made).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ProfileOf({job.job_id(), 5, 2}, bytes, made).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerFileTest, ProfilesAreCheckedFirst) {
  std::string bytes;
  uint32_t made = 0;
  EXPECT_EQ(Profile(0, 5, bytes, made).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Profile(99, 5, bytes, made).error_code(),
            grpc::StatusCode::NOT_FOUND);
  const grpc::Status many = Profile(99, 101, bytes, made);
  EXPECT_EQ(many.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(many.error_message(), ::testing::HasSubstr("1 to 100"));
}

TEST_F(WorkerFileTest, DevicesThatAreNoneAreRefused) {
  std::string bytes;
  EXPECT_EQ(Dump("gpu", bytes).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Dump("cpu:7", bytes).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(WorkerFileTest, FractionsAndHistoriesAreCheckedFirst) {
  const auto stub = v1::DeviceService::NewStub(channel_);
  for (const double fraction : {0.0, -0.5, 1.5}) {
    grpc::ClientContext context;
    v1::SetMemoryFractionRequest request;
    request.set_device("cpu:0");
    request.set_fraction(fraction);
    v1::MemoryStats stats;
    EXPECT_EQ(stub->SetMemoryFraction(&context, request, &stats).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  grpc::ClientContext context;
  v1::RecordMemoryHistoryRequest request;
  request.set_device("cpu:0");
  request.set_max_entries(1'000'001);
  v1::RecordMemoryHistoryResponse response;
  EXPECT_EQ(
      stub->RecordMemoryHistory(&context, request, &response).error_code(),
      grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace gpupool::server
