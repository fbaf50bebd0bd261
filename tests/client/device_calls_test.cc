#include "client/device_calls.h"

#include <gtest/gtest.h>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using Stub = v1::DeviceService::Stub;

class DeviceCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto client = Client::Create(
        {.address = server_.address(), .retry_window = absl::Seconds(5)});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    request_.set_device("cpu:0");
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  v1::EmptyCacheRequest request_;
};

TEST_F(DeviceCallsTest, AnswersWithTheServersMessage) {
  const auto freed = CallDevice(*client_, &Stub::EmptyCache, request_);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(freed->freed_bytes(), 2048u);
}

TEST_F(DeviceCallsTest, RepeatsWhileUnavailableUnlessThatDoesHarm) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["EmptyCache"] = {absl::UnavailableError("draining")};
    server_.state.failures["RecordMemoryHistory"] = {
        absl::UnavailableError("draining")};
  }
  EXPECT_TRUE(CallDevice(*client_, &Stub::EmptyCache, request_).ok());
  const auto recorded =
      CallDevice(*client_, &Stub::RecordMemoryHistory,
                 v1::RecordMemoryHistoryRequest(), Connection::kOnce);
  EXPECT_TRUE(absl::IsUnavailable(recorded.status())) << recorded.status();
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.calls["EmptyCache"], 2);
  EXPECT_EQ(server_.state.calls["RecordMemoryHistory"], 1);
}

}  // namespace
}  // namespace gpupool::client
