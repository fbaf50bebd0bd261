#include "client/cli/devices/memory_watch.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

v1::MemoryStats Stats(uint64_t allocated, uint64_t reserved) {
  v1::MemoryStats stats;
  stats.set_allocated_bytes(allocated);
  stats.set_reserved_bytes(reserved);
  return stats;
}

TEST(MemoryCurveTest, ManyPointsAreThinnedEvenly) {
  MemoryCurve curve;
  for (size_t i = 0; i < MemoryCurve::kMostPoints; ++i) {
    curve.Add(static_cast<double>(i), Stats(0, 0));
  }
  EXPECT_EQ(curve.size(), MemoryCurve::kMostPoints);
  curve.Add(MemoryCurve::kMostPoints, Stats(0, 0));
  EXPECT_EQ(curve.size(), MemoryCurve::kMostPoints / 2 + 1);
  curve.Add(MemoryCurve::kMostPoints + 1, Stats(0, 0));  // one of two is kept
  EXPECT_EQ(curve.size(), MemoryCurve::kMostPoints / 2 + 1);
}

TEST(MemoryCurveTest, ThePictureHasBothCurvesInMebibytes) {
  MemoryCurve curve;
  curve.Add(0, Stats(1 << 20, 2 << 20));
  curve.Add(10, Stats(3 << 20, 4 << 20));
  const std::string picture = curve.Picture("cpu:0");
  EXPECT_THAT(picture, HasSubstr("Memory of cpu:0"));
  EXPECT_THAT(picture, HasSubstr(">reserved</text>"));
  // 4 MiB are the top of the axis, at the right end.
  EXPECT_THAT(picture,
              HasSubstr("<circle class=\"l1\" cx=\"740.0\" cy=\"65.0\""));
}

class MemoryWatchTest : public CommandTest {
 protected:
  MemoryWatchTest() {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Device& device = *server_.state.devices.add_devices();
    device.set_name("cpu:0");
    v1::MemoryStats& stats = *device.mutable_memory();
    stats = Stats(1 << 20, 2 << 20);
    stats.set_limit_bytes(1 << 30);
    v1::OwnerBytes& owner = *stats.add_owners();
    owner.set_owner("job 7 / weights");
    owner.set_bytes(1 << 20);
  }
};

// The fake server sends the same devices twice and ends the stream.
TEST_F(MemoryWatchTest, PrintsARowOnlyWhenTheMemoryHasChanged) {
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--watch"}), 0);
  EXPECT_EQ(out(),
            "ALLOCATED\tRESERVED\tPEAK\tLIMIT\tLARGEST OWNER\n"
            "1.0 MiB\t2.0 MiB\t0 B\t1.0 GiB\tjob 7 / weights: 1.0 MiB\n");
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--watch", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["limit_bytes"], "1073741824");
}

TEST_F(MemoryWatchTest, WritesThePictureAtTheEnd) {
  const std::string file = WriteFile("memory.svg", "");
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--watch", "-O", file}), 0);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("Memory of cpu:0"));
}

TEST_F(MemoryWatchTest, ChecksDeviceAndOptions) {
  EXPECT_EQ(Run({"devices", "memory", "cpu:9", "--watch"}), 3);
  EXPECT_THAT(err(), HasSubstr("cpu:9"));
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "-O", "x.svg"}), 2);
  EXPECT_THAT(err(), HasSubstr("--watch or --snapshot"));
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--watch", "--all"}), 2);
}

}  // namespace
}  // namespace gpupool::client
