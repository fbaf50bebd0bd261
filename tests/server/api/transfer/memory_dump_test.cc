#include "server/api/transfer/memory_dump.h"

#include <gmock/gmock.h>

#include "gpupool/v1/device.grpc.pb.h"
#include "server/api/validation/convert.h"
#include "tests/server/api/api_fixture.h"

namespace gpupool::server {
namespace {

class MemoryDumpTest : public ApiFixture {
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
};

TEST_F(MemoryDumpTest, TheFileComesInChunksAndIsNotKept) {
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

TEST_F(MemoryDumpTest, AFileThatEndsEarlyIsDataLoss) {
  workers_.exported = *blobs_->Put("short");
  workers_.exported_bytes = 100;
  std::string bytes;
  EXPECT_EQ(Dump("cpu:0", bytes).error_code(), grpc::StatusCode::DATA_LOSS);
}

TEST_F(MemoryDumpTest, DevicesThatAreNoneAreRefused) {
  std::string bytes;
  EXPECT_EQ(Dump("gpu", bytes).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Dump("cpu:7", bytes).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(MemoryDumpTest, FractionsAndHistoriesAreCheckedFirst) {
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
