#include "server/api/watch/watch_devices.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "gpupool/v1/device.grpc.pb.h"
#include "tests/server/api/services/token_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class WatchDevicesTest : public TokenFixture {
 protected:
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::ListDevicesResponse>> reader;
  };

  std::unique_ptr<Watch> Begin(const std::string& header) {
    auto watch = std::make_unique<Watch>();
    watch->context.AddMetadata("authorization", header);
    watch->reader =
        v1::DeviceService::NewStub(channel_)->WatchDevices(&watch->context, {});
    return watch;
  }
};

TEST_F(WatchDevicesTest, OneTokenCannotTakeAllPlaces) {
  const std::string greedy = HeaderOf("lab", v1::VIEWER);
  v1::ListDevicesResponse devices;
  std::vector<std::unique_ptr<Watch>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(Begin(greedy));
    ASSERT_TRUE(open.back()->reader->Read(&devices));
  }
  auto refused = Begin(greedy);
  EXPECT_FALSE(refused->reader->Read(&devices));
  const grpc::Status status = refused->reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("limit of one caller, 3 of the 6"));
  // A token of the same tenant.
  open.push_back(Begin(HeaderOf("lab", v1::VIEWER)));
  EXPECT_TRUE(open.back()->reader->Read(&devices));
  for (auto& watch : open) watch->context.TryCancel();
}

}  // namespace
}  // namespace gpupool::server
