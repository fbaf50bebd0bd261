// Tests how long sums are cut, and the functors that make and join the parts,
// with as many lanes as a group has on a GPU or fewer.
#include "engine/backends/portable/arithmetic/parts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "engine/backends/portable/launch/choose_parts.h"
#include "engine/backends/portable/launch/launch.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/reduction/channel_functors.h"
#include "engine/backends/portable/reduction/reduce_functors.h"
#include "tests/engine/backends/portable/lane_group.h"

namespace gpupool::engine::portable {
namespace {

using ::gpupool::engine::testing::RunByLanes;

constexpr int64_t kH200Threads = 132 * 2048;

TEST(ChoosePartsTest, PartsHoldEveryNumberOnce) {
  for (const SumBy by : {SumBy::kThread, SumBy::kRow, SumBy::kColumns}) {
    for (const int64_t sums : {1, 3, 32, 33, 1000, 300000}) {
      for (const int64_t count : {0, 1, 31, 4096, 100352}) {
        const Parts parts = ChooseParts(by, sums, count, kH200Threads);
        EXPECT_EQ(parts.End(parts.parts - 1), count);
        EXPECT_LT(parts.Begin(parts.parts - 1), std::max<int64_t>(count, 1));
        EXPECT_GE(parts.tile * parts.tiles, sums);
        EXPECT_LT(parts.tile * (parts.tiles - 1), sums);
      }
    }
  }
}

// 64 channels of 32 images of 56 x 56.
TEST(ChoosePartsTest, FewChannelsStillFillADevice) {
  for (const SumBy by : {SumBy::kRow, SumBy::kColumns}) {
    const Parts parts = ChooseParts(by, 64, 32 * 56 * 56, kH200Threads);
    EXPECT_GE(parts.items() * kGroupLanes, kH200Threads / 2);
    EXPECT_LE(parts.items() * kGroupLanes, kH200Threads);
  }
}

TEST(ChoosePartsTest, ShortSumsAndManySumsStayWhole) {
  EXPECT_EQ(ChooseParts(SumBy::kRow, 4, 1000, kH200Threads).parts, 1);
  EXPECT_EQ(ChooseParts(SumBy::kColumns, 4, 100, kH200Threads).parts, 1);
  EXPECT_EQ(ChooseParts(SumBy::kRow, 4000, 1 << 20, kH200Threads).parts, 1);
}

TEST(ChoosePartsTest, WhatIsWrittenIsFarLessThanWhatIsRead) {
  for (const int64_t sums : {1, 5, 64, 768, 4096}) {
    const int64_t count = 1 << 16;
    const Parts parts = ChooseParts(SumBy::kColumns, sums, count, kH200Threads);
    if (parts.parts == 1) continue;
    EXPECT_LE(parts.parts * 16 * 8, count * 2) << sums;  // bytes of a sum
  }
}

// Number of lanes, whether sums are in rows, and number of sums.
class LanesTest
    : public ::testing::TestWithParam<std::tuple<int, bool, int64_t>> {
 protected:
  static constexpr int64_t kCount = 700;

  LanesTest() {
    std::tie(lanes_, rows_, sums_) = GetParam();
    parts_ = ChooseParts(rows_ ? SumBy::kRow : SumBy::kColumns, sums_, kCount,
                         1 << 20);
    // Short parts, so that there are parts to be joined.
    parts_.per_part = 60;
    parts_.parts = CeilDivide(kCount, parts_.per_part);
    for (int64_t i = 0; i < sums_ * kCount; ++i) {
      x_.push_back(static_cast<float>(i * 7919 % 1009) / 16);
    }
  }
  int64_t stride_of_sums() const { return rows_ ? kCount : 1; }
  int64_t stride_of_numbers() const { return rows_ ? 1 : sums_; }
  double At(int64_t sum, int64_t k) const {
    return x_[static_cast<size_t>(sum * stride_of_sums() +
                                  k * stride_of_numbers())];
  }

  int lanes_ = 1;
  bool rows_ = false;
  int64_t sums_ = 1;
  Parts parts_;
  std::vector<float> x_;
};

TEST_P(LanesTest, ReductionsAreThoseOfOneLane) {
  ReduceShape shape;
  shape.results = sums_;
  shape.parts = parts_;
  shape.kept = WalkOf<1>({{sums_}, {{stride_of_sums()}}});
  shape.reduced = WalkOf<1>({{kCount}, {{stride_of_numbers()}}});
  std::vector<Number> totals(static_cast<size_t>(sums_ * parts_.parts));
  std::vector<float> y(static_cast<size_t>(sums_));
  const auto join = [&](const Reducer& reducer) {
    RunByLanes(lanes_, sums_,
               JoinPartsFunctor{totals.data(), y.data(), reducer, sums_,
                                parts_.parts, kCount});
  };
  const Reducer mean{ReduceFunction::kMean, DType::kFloat32};
  RunByLanes(lanes_, parts_.items(),
             SumPartsFunctor<float, true>{x_.data(), nullptr, totals.data(),
                                          mean, shape});
  join(mean);
  for (int64_t sum = 0; sum < sums_; ++sum) {
    double wanted = 0;
    for (int64_t k = 0; k < kCount; ++k) wanted += At(sum, k) / kCount;
    EXPECT_NEAR(y[static_cast<size_t>(sum)], wanted, 1e-5) << sum;
  }
  const Reducer least{ReduceFunction::kMin, DType::kFloat32};
  RunByLanes(lanes_, parts_.items(),
             SumPartsFunctor<float, false>{x_.data(), nullptr, totals.data(),
                                           least, shape});
  join(least);
  for (int64_t sum = 0; sum < sums_; ++sum) {
    double wanted = HUGE_VAL;
    for (int64_t k = 0; k < kCount; ++k) wanted = std::min(wanted, At(sum, k));
    EXPECT_EQ(y[static_cast<size_t>(sum)], wanted) << sum;
  }
}

TEST_P(LanesTest, SoAreTheMomentsOfChannels) {
  ChannelSumFunctor<float, ChannelSum::kMoments> sums;
  std::vector<TwoSums> made(static_cast<size_t>(sums_ * parts_.parts));
  sums.x = x_.data();
  sums.sums = made.data();
  sums.shape.channels = sums_;
  sums.shape.channel_stride = stride_of_sums();
  sums.shape.numbers = WalkOf<1>({{kCount}, {{stride_of_numbers()}}});
  sums.shape.parts = parts_;
  RunByLanes(lanes_, parts_.items(), sums);
  const std::vector<float> ones(static_cast<size_t>(sums_), 1);
  std::vector<float> mean(ones), variance(ones);
  std::vector<ChannelMap<float>> maps(ones.size());
  ChannelMapFunctor<float> map;
  map.x = x_.data();
  map.sums = made.data();
  map.gamma.at = map.beta.at = ones.data();
  map.mean_out.at = mean.data();
  map.variance_out.at = variance.data();
  map.maps = maps.data();
  map.shape = sums.shape;
  RunByLanes(lanes_, sums_, map);
  for (int64_t sum = 0; sum < sums_; ++sum) {
    double centre = 0, spread = 0;
    for (int64_t k = 0; k < kCount; ++k) centre += At(sum, k) / kCount;
    for (int64_t k = 0; k < kCount; ++k) {
      spread += (At(sum, k) - centre) * (At(sum, k) - centre) / kCount;
    }
    const auto at = static_cast<size_t>(sum);
    EXPECT_NEAR(mean[at], centre, 1e-5);
    EXPECT_NEAR(variance[at], spread, 1e-6 * spread);
    EXPECT_EQ(maps[at].centre, mean[at]);
    EXPECT_NEAR(maps[at].factor, 1 / std::sqrt(spread), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, LanesTest,
                         ::testing::Combine(::testing::Values(1, 4, 64),
                                            ::testing::Bool(),
                                            ::testing::Values(1, 5, 40)));

}  // namespace
}  // namespace gpupool::engine::portable
