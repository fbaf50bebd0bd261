#include "server/worker/device_monitor.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "tests/server/worker/fake_engine.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using testing_engine::FakeEngine;

// Asks until there are readings.
v1::GpuReadings Next(DeviceMonitor& monitor) {
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (absl::Now() < limit) {
    if (auto readings = monitor.Take(); readings.has_value()) return *readings;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nothing was read";
  return {};
}

void WaitUntilAsked(const FakeEngine& engine, int times) {
  ASSERT_TRUE(WaitUntil([&] { return engine.readings_asked >= times; }));
}

TEST(DeviceMonitorTest, GivesTheNewestReadingsOnce) {
  const FakeEngine engine({.readings_error = absl::OkStatus()});
  DeviceMonitor monitor(&engine, absl::Milliseconds(1));
  const double first = Next(monitor).temperature_celsius();
  WaitUntilAsked(engine, 5);
  EXPECT_GT(Next(monitor).temperature_celsius(), first);
}

TEST(DeviceMonitorTest, IsQuietWhenTheIntervalHasNotPassed) {
  const FakeEngine engine({.readings_error = absl::OkStatus()});
  DeviceMonitor monitor(&engine, absl::Hours(1));
  EXPECT_EQ(Next(monitor).temperature_celsius(), 41);
  EXPECT_FALSE(monitor.Take().has_value());
  EXPECT_EQ(engine.readings_asked, 1);
}

TEST(DeviceMonitorTest, ADeviceThatTellsNothingIsAskedOnce) {
  const FakeEngine engine;
  {
    DeviceMonitor monitor(&engine, absl::ZeroDuration());
    WaitUntilAsked(engine, 1);
    EXPECT_FALSE(monitor.Take().has_value());
  }
  EXPECT_EQ(engine.readings_asked, 1);
}

TEST(DeviceMonitorTest, AnErrorThatMayPassIsAskedAbout) {
  const FakeEngine engine(
      {.readings_error = absl::DataLossError("it is lost")});
  DeviceMonitor monitor(&engine, absl::Milliseconds(1));
  WaitUntilAsked(engine, 3);
  EXPECT_FALSE(monitor.Take().has_value());
}

}  // namespace
}  // namespace gpupool::server
