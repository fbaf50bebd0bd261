#include "engine/backends/cuda/driver/device_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/backends/portable/launch/choose_parts.h"
#include "engine/backends/portable/launch/launch.h"

namespace gpupool::engine::cuda {
namespace {

using portable::ChooseParts;
using portable::kGroupLanes;
using portable::Parts;
using portable::SumBy;
using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

DeviceFacts Gpu(const std::string& name, const std::string& capability,
                uint32_t multiprocessors, uint32_t threads, uint64_t gib) {
  return {.name = name,
          .compute_capability = capability,
          .multiprocessors = multiprocessors,
          .threads_per_multiprocessor = threads,
          .total_bytes = gib * kGiB,
          .driver_version = "580.65.06",
          .cuda_version = "13.0"};
}

DeviceFacts T4() { return Gpu("Tesla T4", "7.5", 40, 1024, 15); }

// Returns devices as their drivers describe them.
std::vector<DeviceFacts> Cards() {
  return {T4(),
          Gpu("NVIDIA L4", "8.9", 58, 1536, 22),
          Gpu("NVIDIA A100-SXM4-80GB", "8.0", 108, 2048, 79),
          Gpu("NVIDIA H200", "9.0", 132, 2048, 139),
          Gpu("NVIDIA B200", "10.0", 148, 2048, 178),
          Gpu("NVIDIA GeForce RTX 5090", "12.0", 170, 1536, 31)};
}

TEST(DeviceLimitsTest, ResidentThreadsAreThoseOfAllMultiprocessors) {
  const int64_t wanted[] = {40960, 89088, 221184, 270336, 303104, 261120};
  const std::vector<DeviceFacts> cards = Cards();
  for (size_t i = 0; i < cards.size(); ++i) {
    EXPECT_EQ(ResidentThreads(cards[i]), wanted[i]) << cards[i].name;
  }
}

// 64 channels of 32 images of 56 x 56. Parts for a T4 would leave two thirds of
// a B200 idle, and parts for a B200 would be written and read in vain on a T4.
TEST(DeviceLimitsTest, LongSumsFillEveryCardOnce) {
  for (const DeviceFacts& card : Cards()) {
    const int64_t threads = ResidentThreads(card);
    for (const SumBy by : {SumBy::kRow, SumBy::kColumns}) {
      const Parts parts = ChooseParts(by, 64, 32 * 56 * 56, threads);
      EXPECT_GE(parts.items() * kGroupLanes, threads / 2) << card.name;
      EXPECT_LE(parts.items() * kGroupLanes, threads) << card.name;
      EXPECT_EQ(parts.End(parts.parts - 1), 32 * 56 * 56) << card.name;
    }
  }
}

TEST(DeviceLimitsTest, TensorCoresTakeTf32AndBfloat16SinceAmpere) {
  for (const DeviceFacts& card : Cards()) {
    const TensorCores cores = TensorCoresOf(card);
    EXPECT_EQ(cores.tensor_float32, card.name != "Tesla T4") << card.name;
    EXPECT_EQ(cores.bfloat16, card.name != "Tesla T4") << card.name;
    const KernelOptions limited =
        Limited({.tensor_float32 = true, .benchmark = true}, cores);
    EXPECT_EQ(limited.tensor_float32, card.name != "Tesla T4") << card.name;
    EXPECT_TRUE(limited.benchmark) << card.name;
    EXPECT_FALSE(Limited({}, cores).tensor_float32) << card.name;
  }
}

TEST(DeviceLimitsTest, WhatIsMissingIsSaidInWords) {
  const KernelOptions high = {.tensor_float32 = true};
  const std::string tf32 = MissingPrecision(T4(), DType::kFloat32, high);
  EXPECT_THAT(tf32, HasSubstr("Tesla T4 (compute capability 7.5) has no TF32"));
  EXPECT_THAT(tf32, HasSubstr("computed in float32"));
  EXPECT_THAT(MissingPrecision(T4(), DType::kBFloat16, {}),
              HasSubstr("precision bf16 is right but slow there"));
  EXPECT_EQ(MissingPrecision(T4(), DType::kFloat32, {}), "");
  EXPECT_EQ(MissingPrecision(T4(), DType::kFloat16, high), "");
  for (const DeviceFacts& card : Cards()) {
    if (card.name == "Tesla T4") continue;
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      EXPECT_EQ(MissingPrecision(card, type, high), "") << card.name;
    }
  }
}

// One change at a time: a different card, a part of a card, a different driver.
TEST(DeviceLimitsTest, PlansOfOneDeviceAreNotAnothers) {
  std::vector<DeviceFacts> all = Cards();
  const DeviceFacts whole = all[3];
  const auto add = [&](auto DeviceFacts::*member, const auto& value) {
    all.push_back(whole);
    all.back().*member = value;
  };
  add(&DeviceFacts::name, "NVIDIA H100 80GB HBM3");
  add(&DeviceFacts::compute_capability, "9.1");
  add(&DeviceFacts::multiprocessors, 60u);
  add(&DeviceFacts::total_bytes, 70 * kGiB);
  add(&DeviceFacts::driver_version, "580.95.05");
  add(&DeviceFacts::cuda_version, "13.1");
  std::set<std::string> keys;
  for (const DeviceFacts& facts : all) keys.insert(PlanDevice(facts));
  EXPECT_EQ(keys.size(), all.size());
}

// Two cards of the same kind share the measurements of one of them.
TEST(DeviceLimitsTest, PlansAreSharedByCardsThatAreAlike) {
  DeviceFacts other = T4();
  other.uuid = "GPU-2";
  other.pci_bus_id = "0000:01:00.0";
  EXPECT_EQ(PlanDevice(other), PlanDevice(T4()));
}

}  // namespace
}  // namespace gpupool::engine::cuda
