#include "server/pool/worker_settings.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "gpupool/worker/v1/worker.pb.h"
#include "server/pool/worker_pool.h"

namespace gpupool::server {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

PoolDevice CpuDevice() {
  PoolDevice device;
  device.name = "cpu:0";
  device.limit_bytes = 4096;
  device.threads = 2;
  return device;
}

// Returns the hello of an idle worker with the settings of CpuDevice.
worker::v1::HelloReply IdleHello() {
  worker::v1::HelloReply hello;
  hello.set_protocol_version(kWorkerProtocolVersion);
  hello.set_device("cpu:0");
  hello.mutable_info()->set_limit_bytes(4096);
  hello.mutable_info()->set_threads(2);
  return hello;
}

TEST(WorkerArgumentsTest, FlagsWithoutAValueAreLeftOut) {
  PoolOptions options;
  options.worker_binary = "/bin/worker";
  PoolDevice device = CpuDevice();
  std::vector<std::string> arguments = WorkerArguments(options, device);
  EXPECT_EQ(arguments[0], "/bin/worker");
  EXPECT_THAT(arguments, Contains("4096"));
  EXPECT_THAT(arguments, Not(Contains("--plan-facts")));
  EXPECT_THAT(arguments, Not(Contains("--cuda-lib-dir")));
  device.plan_facts = "facts";
  options.cuda_lib_dir = "/lib/cuda";
  arguments = WorkerArguments(options, device);
  EXPECT_THAT(arguments, Contains("facts"));
  EXPECT_THAT(arguments, Contains("/lib/cuda"));
}

TEST(WorkerArgumentsTest, WorkersAreToldOfTheSandbox) {
  PoolOptions options;
  EXPECT_THAT(WorkerArguments(options, CpuDevice()), Contains("auto"));
  options.sandbox = "off";
  EXPECT_THAT(WorkerArguments(options, CpuDevice()), Contains("off"));
}

TEST(WorkerArgumentsTest, DevicesBesideOthersJoinGroups) {
  PoolOptions options;
  PoolDevice meta;
  meta.name = "meta";
  PoolDevice rehearsal;
  rehearsal.name = "rehearsal";
  PoolDevice device = CpuDevice();
  options.devices = {device, meta, rehearsal};
  EXPECT_FALSE(JoinsGroups(options, device));
  options.devices.push_back(CpuDevice());
  options.devices.back().name = "cpu:1";
  EXPECT_TRUE(JoinsGroups(options, device));
  EXPECT_FALSE(JoinsGroups(options, meta));
  EXPECT_FALSE(JoinsGroups(options, rehearsal));
  EXPECT_THAT(WorkerArguments(options, device),
              Not(Contains("--joins-groups")));
  device.joins_groups = true;
  EXPECT_THAT(WorkerArguments(options, device), Contains("--joins-groups"));
}

TEST(CheckWorkerHelloTest, OtherProtocolsAndDevicesAreRefused) {
  worker::v1::HelloReply hello = IdleHello();
  EXPECT_TRUE(CheckWorkerHello(hello, CpuDevice()).ok());
  hello.set_device("cpu:1");
  EXPECT_TRUE(absl::IsInternal(CheckWorkerHello(hello, CpuDevice())));
  hello = IdleHello();
  hello.set_protocol_version(kWorkerProtocolVersion + 1);
  const absl::Status status = CheckWorkerHello(hello, CpuDevice());
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stop the old worker"));
}

TEST(CheckWorkerSettingsTest, OnlyAnIdleWorkerOfOtherSettingsIsReplaced) {
  worker::v1::HelloReply hello = IdleHello();
  EXPECT_TRUE(CheckWorkerSettings(hello, CpuDevice()).ok());
  hello.mutable_info()->set_threads(3);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(CheckWorkerSettings(hello, CpuDevice())));
  hello.add_loaded_version_ids(5);
  EXPECT_TRUE(CheckWorkerSettings(hello, CpuDevice()).ok());
  hello.clear_loaded_version_ids();
  hello.add_running()->set_job_id(7);
  EXPECT_TRUE(CheckWorkerSettings(hello, CpuDevice()).ok());
}

TEST(CheckWorkerSettingsTest, AnIdleWorkerThatCannotJoinGroupsIsReplaced) {
  PoolDevice device = CpuDevice();
  device.joins_groups = true;
  worker::v1::HelloReply hello = IdleHello();
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckWorkerSettings(hello, device)));
  hello.set_joins_groups(true);
  EXPECT_TRUE(CheckWorkerSettings(hello, device).ok());
  // It may join more than it has to.
  EXPECT_TRUE(CheckWorkerSettings(hello, CpuDevice()).ok());
}

TEST(CheckWorkerSettingsTest, ADeviceWithoutALimitTakesAny) {
  PoolDevice device = CpuDevice();
  device.limit_bytes = 0;
  EXPECT_TRUE(CheckWorkerSettings(IdleHello(), device).ok());
}

}  // namespace
}  // namespace gpupool::server
