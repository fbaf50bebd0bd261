#include "server/setting_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class SettingKindTest : public ::testing::Test {
 protected:
  void Takes(const SettingKind& kind, absl::string_view value) {
    const absl::Status status = kind.set(value, &config_);
    EXPECT_TRUE(status.ok()) << value << ": " << status;
  }

  // Expects an error that says what is allowed.
  void Refuses(const SettingKind& kind, absl::string_view value,
               const std::string& allowed) {
    const absl::Status status = kind.set(value, &config_);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(allowed)) << value;
  }

  Config config_;
};

TEST_F(SettingKindTest, TextIsNotEmpty) {
  const SettingKind kind = TextKind("FILE", In<&Config::port_file>);
  Takes(kind, "a b");
  EXPECT_EQ(config_.port_file, "a b");
  Refuses(kind, "", "must not be empty");
}

TEST_F(SettingKindTest, FoldersAreSeparatedByColons) {
  const SettingKind kind = FoldersKind(In<&Config::model_repositories>);
  EXPECT_TRUE(kind.repeats);
  Takes(kind, "/a:b c");
  EXPECT_EQ(config_.model_repositories, "/a:b c");
  Refuses(kind, "", "must be folders that are not empty");
  Refuses(kind, "/a::/b", "must be folders that are not empty");
  Refuses(kind, "s3://bucket/models", "mount the bucket");
}

TEST_F(SettingKindTest, AWordIsOneOfThoseThatAreKnown) {
  const SettingKind kind =
      WordKind("LEVEL", In<&Config::log_level>, {"a", "b", "c"});
  EXPECT_EQ(kind.allowed, "a, b or c");
  Takes(kind, "c");
  EXPECT_EQ(config_.log_level, "c");
  Refuses(kind, "d", "must be a, b or c");
}

TEST_F(SettingKindTest, ASwitchIsTrueOrFalse) {
  const SettingKind kind = SwitchKind(In<&Config::triton_metrics>);
  EXPECT_EQ(kind.allowed, "true or false");
  Takes(kind, "false");
  EXPECT_FALSE(config_.triton_metrics);
  Takes(kind, "true");
  EXPECT_TRUE(config_.triton_metrics);
  for (const char* value : {"", "yes", "1", "True", "false "}) {
    Refuses(kind, value, "must be true or false");
  }
  EXPECT_TRUE(config_.triton_metrics);
}

TEST_F(SettingKindTest, DevicesAndAddressesAreChecked) {
  Takes(DeviceListKind(In<&Config::devices>), "cpu:2");
  EXPECT_EQ(config_.devices, "cpu:2");
  Refuses(DeviceListKind(In<&Config::devices>), "cpu:0", "write cpu:1");
  for (const char* address : {"0.0.0.0", "::1"}) {
    Takes(AddressKind(In<&Config::listen>), address);
    EXPECT_EQ(config_.listen, address);
  }
  Refuses(AddressKind(In<&Config::listen>), "localhost", "an IP address");
}

TEST_F(SettingKindTest, PortsHaveSixteenBits) {
  const SettingKind kind = PortKind(In<&Config::grpc_port>);
  Takes(kind, "65535");
  EXPECT_EQ(config_.grpc_port, 65535);
  Takes(kind, "0");
  for (const char* value : {"65536", "-1", "1.5", "many", ""}) {
    Refuses(kind, value, "0 .. 65535");
  }
  EXPECT_EQ(config_.grpc_port, 0);
}

TEST_F(SettingKindTest, BytesEndAtTheirBounds) {
  const SettingKind kind =
      BytesKind(In<&ApiLimits::model_file_bytes>, 1024, uint64_t{1} << 40);
  EXPECT_EQ(kind.allowed, "1KiB to 1TiB");
  Takes(kind, "1024");
  EXPECT_EQ(config_.limits.model_file_bytes, 1024u);
  Takes(kind, "1TiB");
  EXPECT_EQ(config_.limits.model_file_bytes, uint64_t{1} << 40);
  Refuses(kind, "1023", "1KiB to 1TiB");
  Refuses(kind, "1099511627777", "1KiB to 1TiB");
  Refuses(kind, "1GB", "KiB, MiB, GiB");
}

TEST_F(SettingKindTest, BytesThatMayBeZeroHaveABoundAboveIt) {
  const SettingKind kind =
      BytesOrZeroKind(In<&Config::response_cache_bytes>, 8192, 65536);
  EXPECT_EQ(kind.allowed, "0, or 8KiB to 64KiB");
  Takes(kind, "8KiB");
  EXPECT_EQ(config_.response_cache_bytes, 8192u);
  Takes(kind, "64KiB");
  for (const char* value : {"1", "8191", "65537", "128KiB"}) {
    Refuses(kind, value, "must be 0, or 8KiB to 64KiB");
  }
  EXPECT_EQ(config_.response_cache_bytes, 65536u);
  Takes(kind, "0");
  EXPECT_EQ(config_.response_cache_bytes, 0u);
}

TEST_F(SettingKindTest, CountsAndSecondsAreWholeNumbersInTheirRange) {
  const SettingKind count = CountKind(In<&Config::keep_jobs>, 2, 9);
  Takes(count, "9");
  EXPECT_EQ(config_.keep_jobs, 9u);
  Refuses(count, "1", "a whole number 2 .. 9");
  Refuses(count, "10", "2 .. 9");
  const SettingKind seconds = SecondsKind(In<&Config::hang_timeout>, 0, 60);
  Takes(seconds, "60");
  EXPECT_EQ(config_.hang_timeout, absl::Minutes(1));
  Refuses(seconds, "0.5", "a whole number of seconds 0 .. 60");
}

TEST_F(SettingKindTest, DelaysAndFactorsHaveFractions) {
  const SettingKind delay = DelayKind(In<&Config::serving_target_delay>, 600);
  Takes(delay, "0.25");
  EXPECT_EQ(config_.serving_target_delay, absl::Milliseconds(250));
  for (const char* value : {"-1", "nan", "600.1", "x"}) {
    Refuses(delay, value, "0 .. 600");
  }
  const SettingKind factor =
      FactorKind(In<&scheduler::QueuePolicy::hysteresis>, 1, 1000);
  Takes(factor, "1.5");
  EXPECT_EQ(config_.scheduling.hysteresis, 1.5);
  Refuses(factor, "nan", "1 .. 1000");
  Refuses(factor, "0.5", "1 .. 1000");
}

TEST_F(SettingKindTest, SchedulersWordsAreTheSchedulers) {
  using scheduler::QueuePolicy;
  Takes(OrderKind(In<&QueuePolicy::order>), "srs");
  EXPECT_EQ(config_.scheduling.order, scheduler::Order::kShortestRemaining);
  Refuses(OrderKind(In<&QueuePolicy::order>), "best", "fifo, priority, easy");
  const SettingKind placement = PlacementKind(In<&QueuePolicy::placement>);
  Takes(placement, "pack");
  EXPECT_EQ(config_.scheduling.placement, scheduler::PlacementRule::kPack);
  Refuses(placement, "random", placement.allowed);
}

TEST_F(SettingKindTest, TenantsAndQueuesComeAsALineOrAsEntries) {
  const SettingKind tenants = TenantsKind(In<&scheduler::QueuePolicy::tenants>);
  Takes(tenants, "a:weight=2;b:most=1");
  ASSERT_TRUE(tenants.set_entries({{"c", {{"weight", "3"}}}}, &config_).ok());
  EXPECT_EQ(config_.scheduling.tenants.size(), 1u) << "replaced, not joined";
  EXPECT_EQ(config_.scheduling.tenants.at("c").weight, 3);
  Refuses(tenants, "a:weight=0", "tenant 'a'");

  const SettingKind queues = QueuesKind(In<&Config::queues>);
  Takes(queues, "a:rank=1;b");
  ASSERT_EQ(config_.queues.size(), 2u);
  Refuses(queues, "a:rank=x", "queue 'a': rank=x");
  EXPECT_EQ(config_.queues.size(), 2u) << "as before";
}

TEST_F(SettingKindTest, CollectorsAreUrls) {
  const SettingKind kind = CollectorKind(In<&Config::trace_endpoint>);
  Takes(kind, "http://localhost:4318");
  EXPECT_EQ(config_.trace_endpoint, "http://localhost:4318");
  Refuses(kind, "localhost:4318", "http:// or https://");
  Refuses(kind, "", "http:// or https://");
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

TEST(BytesTextTest, IsWhatParseBytesReads) {
  for (const char* text :
       {"0", "1", "1023", "64KiB", "1025KiB", "8GiB", "64TiB"}) {
    EXPECT_EQ(BytesText(*ParseBytes(text)), text);
  }
}

}  // namespace
}  // namespace gpupool::server
