#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& text) {
    const std::string path = directory_ / "gpupoold.yaml";
    std::ofstream(path) << text;
    return ReadConfigFile(path, &config_);
  }

  void Refused(const std::string& text,
               const std::vector<std::string>& fragments) {
    const absl::Status status = Read(text);
    EXPECT_FALSE(status.ok()) << text;
    for (const std::string& fragment : fragments) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
    }
  }

  TempDir directory_;
  Config config_;
};

TEST_F(ConfigTest, FileSetsWhatItNamesAndKeepsTheRest) {
  const absl::Status status =
      Read("grpc-port: 0\ndevice_memory: 1.5GiB\ndevices: cpu:2\n");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config_.grpc_port, 0);
  EXPECT_EQ(config_.device_memory_bytes, uint64_t{3} << 29);
  EXPECT_EQ(config_.devices, "cpu:2");
  EXPECT_EQ(config_.http_port, 8000);
}

TEST_F(ConfigTest, TheOrderOfJobsIsAWordAndItsNumbersHaveBounds) {
  EXPECT_EQ(config_.scheduling.order, scheduler::Order::kFirstCome);
  const absl::Status status = Read(
      "order: srs\npreempt_hysteresis: 1.5\nmin-run: 0\nrestart-cost: 7\n"
      "tenants: a:weight=2;a.b:most=3\nusage-half-life: 3600\n"
      "serving-target-delay: 0.25\ngrow-after: 9\n");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config_.scheduling.order, scheduler::Order::kShortestRemaining);
  EXPECT_EQ(config_.scheduling.hysteresis, 1.5);
  EXPECT_EQ(config_.scheduling.tenants.at("a").weight, 2);
  EXPECT_EQ(config_.scheduling.tenants.at("a.b").most, 3u);
  EXPECT_EQ(config_.scheduling.usage_half_life, absl::Hours(1));
  EXPECT_EQ(config_.scheduling.min_run, absl::ZeroDuration());
  EXPECT_EQ(config_.scheduling.restart_cost, absl::Seconds(7));
  EXPECT_EQ(config_.scheduling.grow_after, absl::Seconds(9));
  EXPECT_EQ(config_.serving_target_delay, absl::Milliseconds(250));
  EXPECT_TRUE(config_.scheduling.yields_to_serving);
  ASSERT_TRUE(Read("serving-target-delay: 0\n").ok());
  EXPECT_FALSE(config_.scheduling.yields_to_serving);
  Refused("serving-target-delay: 601\n", {"601", "0 .. 600"});
  Refused("tenants: a:weight=0\n", {"tenant 'a'", "weight=0", "line 1"});
  Refused("usage-half-life: -1\n", {"-1", "0 .. "});
  Refused("order: random\n",
          {"random", "fifo, priority, easy, fair", "line 1"});
  ASSERT_TRUE(Read("placement: pack\n").ok());
  EXPECT_EQ(config_.scheduling.placement, scheduler::PlacementRule::kPack);
  Refused("placement: random\n", {"random", "spread, best-fit or pack"});
  Refused("preempt-hysteresis: 0.5\n", {"0.5", "1 .. 1000"});
  Refused("preempt-hysteresis: nan\n", {"nan", "1 .. 1000"});
  Refused("min-run: -1\n", {"-1", "0 .. 86400"});
}

TEST_F(ConfigTest, WhatIsNotSaidOfAQueueIsAsInTheRest) {
  const absl::Status status =
      Read("queues: a:order=las,rank=2;b:min-run=7\norder: easy\nmin-run: 9\n");
  ASSERT_TRUE(status.ok()) << status;
  const auto queues = SchedulingOf(config_).queues;
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].order, scheduler::Order::kLeastAttained);
  EXPECT_EQ(queues[0].min_run, absl::Seconds(9));
  EXPECT_EQ(queues[1].order, scheduler::Order::kBackfill);
  EXPECT_EQ(queues[1].min_run, absl::Seconds(7));
  Refused("queues: a:rank=x\n", {"queue 'a'", "rank=x", "line 1"});
}

TEST_F(ConfigTest, EmptyFileIsFine) { EXPECT_TRUE(Read("# nothing\n").ok()); }

TEST_F(ConfigTest, UnknownNameIsAnErrorWithItsLine) {
  Refused("devices: auto\n\ngrpcport: 1\n", {"grpcport", "line 3", "--help"});
}

TEST_F(ConfigTest, BadValueIsAnErrorWithItsLineAndTheRule) {
  Refused("listen: everywhere\n", {"listen", "everywhere", "line 1"});
  Refused("devices: cpu:0\n", {"devices", "cpu:0", "line 1", "write cpu:1"});
  Refused("a: [1\n", {"gpupoold.yaml"});
  Refused("grpc-port: 70000\n", {"70000", "0 .. 65535"});
  Refused("grpc-port: -1\n", {"-1", "0 .. 65535"});
  Refused("device-memory: 12parsecs\n", {"12parsecs", "GiB"});
  Refused("log-level: loud\n", {"loud", "debug"});
  Refused("devices: {a: b}\n", {"line 1"});
  Refused("- devices\n", {"name: value"});
}

TEST_F(ConfigTest, MissingFileIsNamed) {
  const absl::Status status = ReadConfigFile("/nowhere/x.yaml", &config_);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/x.yaml"));
}

TEST_F(ConfigTest, AFolderIsNoConfigurationFile) {
  const absl::Status status = ReadConfigFile(directory_.path(), &config_);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is it a file?"));
}

TEST_F(ConfigTest, NamesAreUnique) {
  std::set<std::string> names;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
  }
}

TEST(ParseBytesTest, TakesPlainNumbersAndBinarySuffixes) {
  EXPECT_EQ(*ParseBytes("512"), 512u);
  EXPECT_EQ(*ParseBytes("64KiB"), 65536u);
  EXPECT_EQ(*ParseBytes("256MiB"), uint64_t{256} << 20);
  EXPECT_EQ(*ParseBytes("0.5GiB"), uint64_t{1} << 29);
}

TEST(ParseBytesTest, RefusesEverythingElse) {
  for (const char* text : {"", "x", "-1", "1.5", "1GB", "-1GiB", "nanGiB",
                           "1e30TiB", "99999999999999999999", "GiB"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

}  // namespace
}  // namespace gpupool::server
