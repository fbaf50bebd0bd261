// Devices are measured by their workers; the store keeps the results.
#include "server/control/devices/bench_requests.h"

#include <gmock/gmock.h>

#include "server/control/devices/device_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using worker::v1::FromWorker;

class BenchRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    Hello("cpu:0");
  }
  Answer<v1::DeviceBench> Bench(const std::string& device, bool force = false) {
    v1::BenchDeviceRequest request;
    request.set_device(device);
    request.set_force(force);
    Answer<v1::DeviceBench> answer;
    BenchDevice(control(), request, answer.callback());
    return answer;
  }
  absl::StatusOr<v1::DeviceBench> Kept(const std::string& device) {
    v1::GetDeviceBenchRequest request;
    request.set_device(device);
    Answer<v1::DeviceBench> answer;
    GetDeviceBench(control(), request, answer.callback());
    return answer.Wait();
  }
  // Answers the worker's message with the rate of float32 products. Returns
  // whether the message forces the measurement.
  bool Serve(double flops) {
    FakeWorkers::Pending send;
    EXPECT_TRUE(workers->NextSend(send));
    EXPECT_EQ(send.device, "cpu:0");
    const v1::Device device = ListDevices(control())[0];
    FromWorker reply;
    v1::DeviceBench& bench = *reply.mutable_bench_device();
    bench.set_description(device.description());
    bench.set_threads(device.threads());
    bench.add_products()->set_data_type("float32");
    bench.mutable_products(0)->set_flops(flops);
    send.callback(std::move(reply));
    return send.message.bench_device().force();
  }
};

TEST_F(BenchRequestsTest, TheLastResultIsKeptAndItsRatesAreShown) {
  auto first = Bench("cpu:0");
  EXPECT_FALSE(Serve(4e9));
  EXPECT_EQ(first.Wait()->device(), "cpu:0");
  auto second = Bench("cpu:0", /*force=*/true);
  EXPECT_TRUE(Serve(5e9));
  ASSERT_TRUE(second.Wait().ok());
  Restart();
  EXPECT_EQ(Kept("cpu:0")->products(0).flops(), 5e9);
  Hello("cpu:0");
  EXPECT_TRUE(WaitUntil([&] {
    const v1::Device device = ListDevices(control())[0];
    return device.measured_rates().float32_flops() == 5e9;
  }));
}

TEST_F(BenchRequestsTest, RatesOfOtherHardwareAreNotShown) {
  auto bench = Bench("cpu:0");
  Serve(4e9);
  ASSERT_TRUE(bench.Wait().ok());
  EXPECT_TRUE(ListDevices(control())[0].has_measured_rates());
  worker::v1::HelloReply reply;
  reply.mutable_info()->set_limit_bytes(kLimit);
  reply.mutable_info()->set_description("another processor");
  loop->OnWorkerReady("cpu:0", reply);
  EXPECT_TRUE(WaitUntil(
      [&] { return !ListDevices(control())[0].has_measured_rates(); }));
}

TEST_F(BenchRequestsTest, ErrorsNameTheDevice) {
  EXPECT_TRUE(absl::IsNotFound(Bench("cpu:9").Wait().status()));
  EXPECT_TRUE(absl::IsNotFound(Kept("cpu:9").status()));
  EXPECT_THAT(std::string(Kept("cpu:0").status().message()),
              HasSubstr("gpupool devices bench cpu:0"));
}

TEST_F(BenchRequestsTest, AnErrorOfTheWorkerIsPassedOnAndKeepsNothing) {
  auto bench = Bench("cpu:0");
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::FailedPreconditionError("it trains"));
  EXPECT_EQ(bench.Wait().status().message(), "it trains");
  EXPECT_TRUE(absl::IsNotFound(Kept("cpu:0").status()));
}

}  // namespace
}  // namespace gpupool::server
