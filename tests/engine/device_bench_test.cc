#include "engine/device_bench.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "engine/session.h"

namespace gpupool::engine {
namespace {

absl::StatusOr<std::unique_ptr<Session>> OpenDevice(const std::string& name,
                                                    uint64_t limit_bytes) {
  return Session::Create(
      {.device = *ParseDevice(name), .memory_limit_bytes = limit_bytes});
}

v1::DeviceBench MeasureAll(Session& session) {
  v1::DeviceBench bench;
  for (uint32_t index = 0;; ++index) {
    const auto more = session.MeasureDevice(index, bench);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return bench;
  }
}

TEST(DeviceBenchTest, TheHostHasCopiesProductsAndAllocations) {
  const auto session = OpenDevice("cpu:0", uint64_t{1} << 30);
  ASSERT_TRUE(session.ok()) << session.status();
  const v1::DeviceBench bench = MeasureAll(**session);
  EXPECT_EQ(bench.device(), "cpu:0");
  EXPECT_EQ(bench.threads(), 1u);
  EXPECT_TRUE(bench.has_time());
  // Three paths and five sizes; the host has no pinned memory.
  EXPECT_EQ(bench.copies_size(), 15);
  for (const auto& copy : bench.copies()) {
    EXPECT_FALSE(copy.pinned());
    EXPECT_GT(copy.seconds(), 0);
    EXPECT_GE(copy.repeats(), 3u);
  }
  std::set<std::string> types;
  for (const auto& product : bench.products()) {
    types.insert(product.data_type());
    EXPECT_GT(product.seconds(), 0);
    const double size = product.size();
    EXPECT_DOUBLE_EQ(product.flops(),
                     2 * size * size * size / product.seconds());
  }
  EXPECT_TRUE(types.contains("float32"));
  EXPECT_FALSE(types.contains("tf32"));
  EXPECT_EQ(bench.allocations_size(), 5);
  EXPECT_EQ((*session)->memory_stats().allocated_bytes(), 0u);
}

TEST(DeviceBenchTest, MeasurementsThatNeedTooMuchMemoryAreSkippedWithAReason) {
  // Room for blocks of 1 MiB, not for those of 16 MiB.
  const auto session = OpenDevice("cpu:0", uint64_t{12} << 20);
  ASSERT_TRUE(session.ok()) << session.status();
  const v1::DeviceBench bench = MeasureAll(**session);
  EXPECT_EQ(bench.copies_size(), 9);
  EXPECT_EQ(bench.allocations_size(), 3);
  int copies = 0;
  for (const std::string& reason : bench.skipped()) {
    copies += reason.rfind("copies ", 0) == 0;
  }
  EXPECT_EQ(copies, 6);
}

TEST(DeviceBenchTest, AnIndexWithoutAMeasurementIsRefused) {
  const auto session = OpenDevice("cpu:0", uint64_t{1} << 30);
  ASSERT_TRUE(session.ok()) << session.status();
  v1::DeviceBench bench;
  EXPECT_TRUE(absl::IsOutOfRange(
      (*session)->MeasureDevice(BenchCases(), bench).status()));
}

TEST(DeviceBenchTest, TheMetaDeviceCannotBeMeasured) {
  const auto session = OpenDevice("meta", uint64_t{1} << 30);
  ASSERT_TRUE(session.ok()) << session.status();
  v1::DeviceBench bench;
  EXPECT_TRUE(
      absl::IsFailedPrecondition((*session)->MeasureDevice(0, bench).status()));
}

}  // namespace
}  // namespace gpupool::engine
