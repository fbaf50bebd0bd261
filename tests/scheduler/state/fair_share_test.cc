#include "scheduler/state/fair_share.h"

#include <gmock/gmock.h>

namespace gpupool::scheduler {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

constexpr absl::Duration kHalfLife = absl::Hours(1);

class FairShareTest : public ::testing::Test {
 protected:
  FairShareTest() { usage_.AddCapacity("cuda", 10, 1000); }
  void Take(absl::string_view tenant, uint64_t bytes = 0) {
    usage_.Take({.tenant = tenant, .kind = "cuda", .bytes = bytes}, now_,
                kHalfLife);
  }
  void GiveBack(absl::string_view tenant, uint64_t bytes = 0) {
    usage_.GiveBack({.tenant = tenant, .kind = "cuda", .bytes = bytes}, now_,
                    kHalfLife);
  }
  double Standing(absl::string_view path) const {
    return usage_.Standing(path, shares_, now_, kHalfLife);
  }

  TenantUsage usage_;
  TenantShares shares_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST(PathOfTest, HasEveryLevel) {
  EXPECT_THAT(PathOf("a.bc.d"), ElementsAre("a", "a.bc", "a.bc.d"));
  EXPECT_THAT(PathOf("alone"), ElementsAre("alone"));
  EXPECT_THAT(PathOf(""), ElementsAre(""));
  EXPECT_THAT(PathOf("a."), ElementsAre("a", "a."));
}

TEST_F(FairShareTest, TheLargestPartIsTheDominantOne) {
  Take("a", 50);
  EXPECT_DOUBLE_EQ(usage_.DominantShare("a"), 0.1);
  Take("a", 400);
  EXPECT_DOUBLE_EQ(usage_.DominantShare("a"), 0.45);
  GiveBack("a", 400);
  EXPECT_DOUBLE_EQ(usage_.DominantShare("a"), 0.1);
}

TEST_F(FairShareTest, KindsOfDevicesAreApart) {
  usage_.AddCapacity("cpu", 2, 1000);
  Take("a");
  usage_.Take({.tenant = "a", .kind = "cpu"}, now_, kHalfLife);
  EXPECT_DOUBLE_EQ(usage_.DominantShare("a"), 0.5);
}

TEST_F(FairShareTest, WhatIsHeldCountsAtOnceAndHalf) {
  Take("a");
  EXPECT_DOUBLE_EQ(Standing("a"), 0.05);
  EXPECT_EQ(Standing("b"), 0);
}

TEST_F(FairShareTest, ThePastFadesByHalfEveryHalfLife) {
  Take("a");
  now_ += 100 * kHalfLife;
  EXPECT_THAT(Standing("a"), DoubleNear(0.1, 1e-9));
  GiveBack("a");
  EXPECT_THAT(Standing("a"), DoubleNear(0.05, 1e-9));
  now_ += kHalfLife;
  EXPECT_THAT(Standing("a"), DoubleNear(0.025, 1e-9));
  // However often it is read in between.
  Take("a");
  GiveBack("a");
  now_ += kHalfLife;
  EXPECT_THAT(Standing("a"), DoubleNear(0.0125, 1e-9));
}

TEST_F(FairShareTest, WithoutAHalfLifeOnlyThePresentCounts) {
  const TenantUsage::Use use{.tenant = "a", .kind = "cuda"};
  usage_.Take(use, now_, absl::ZeroDuration());
  now_ += absl::Hours(5);
  usage_.GiveBack(use, now_, absl::ZeroDuration());
  EXPECT_EQ(usage_.Standing("a", shares_, now_, absl::ZeroDuration()), 0);
}

TEST_F(FairShareTest, WeightsDivide) {
  shares_["a"].weight = 4;
  Take("a");
  EXPECT_DOUBLE_EQ(Standing("a"), 0.0125);
}

TEST_F(FairShareTest, ParentsCountTheirChildren) {
  Take("a.x");
  Take("a.y");
  Take("a");
  EXPECT_EQ(usage_.Devices("a"), 3u);
  EXPECT_EQ(usage_.Devices("a.x"), 1u);
  EXPECT_EQ(usage_.Devices("a.z"), 0u);
}

TEST_F(FairShareTest, LimitsHoldAtEveryLevel) {
  shares_["a"].most = 3;
  shares_["a.x"].most = 2;
  Take("a.x");
  EXPECT_EQ(usage_.LevelAtLimit("a.x", {1}, shares_), std::nullopt);
  EXPECT_THAT(usage_.LevelAtLimit("a.x", {2}, shares_),
              Optional(std::string("a.x")));
  Take("a.y");
  Take("a.y");
  EXPECT_THAT(usage_.LevelAtLimit("a.x", {1}, shares_),
              Optional(std::string("a")));
  EXPECT_EQ(usage_.LevelAtLimit("b", {10}, shares_), std::nullopt);
  EXPECT_THAT(usage_.LevelAtLimit("a.z", {~uint32_t{0}}, shares_),
              Optional(std::string("a")));
}

TEST_F(FairShareTest, LimitsOfBytesHoldAtEveryLevel) {
  shares_["a"].most_device_bytes = 100;
  Take("a.x", 60);
  EXPECT_EQ(usage_.Bytes("a"), 60u);
  EXPECT_EQ(usage_.LevelAtLimit("a.y", {1, 40}, shares_), std::nullopt);
  EXPECT_EQ(usage_.LevelAtLimit("a.y", {2, 20}, shares_), std::nullopt);
  EXPECT_THAT(usage_.LevelAtLimit("a.y", {2, 21}, shares_),
              Optional(std::string("a")));
  EXPECT_THAT(usage_.LevelAtLimit("a.y", {2, ~uint64_t{0}}, shares_),
              Optional(std::string("a")));
  EXPECT_FALSE(usage_.ExceedsDevices("a", 1000, shares_));
  GiveBack("a.x", 60);
  EXPECT_EQ(usage_.Bytes("a"), 0u);
  EXPECT_EQ(usage_.LevelAtLimit("a.y", {1, 100}, shares_), std::nullopt);
  shares_["a"].most_device_bytes = 0;
  EXPECT_EQ(usage_.LevelAtLimit("a.y", {1, 0}, shares_), std::nullopt);
}

TEST_F(FairShareTest, AGuaranteeHoldsUpToItsDevices) {
  shares_["a"].guaranteed = 2;
  EXPECT_TRUE(usage_.IsGuaranteed("a.x", 2, shares_));
  Take("a.y");
  EXPECT_TRUE(usage_.IsGuaranteed("a.x", 1, shares_));
  EXPECT_FALSE(usage_.IsGuaranteed("a.x", 2, shares_));
  EXPECT_FALSE(usage_.IsGuaranteed("b", 1, shares_));
}

TEST_F(FairShareTest, WhatIsRememberedCountsAsIfItHadBeenSeen) {
  Take("a.x", 30);
  Take("a.x", 30);
  now_ += absl::Hours(3);
  GiveBack("a.x", 30);
  GiveBack("a.x", 30);
  const absl::Time end = now_;
  now_ += absl::Hours(2);
  const double seen = Standing("a");
  TenantUsage restarted;
  restarted.AddCapacity("cuda", 10, 1000);
  restarted.Remember({.tenant = "a.x",
                      .kind = "cuda",
                      .devices = 2,
                      .bytes = 30,
                      .run = absl::Hours(3),
                      .end = end},
                     now_, kHalfLife);
  EXPECT_NEAR(restarted.Standing("a", shares_, now_, kHalfLife), seen, 1e-12);
  EXPECT_NEAR(restarted.Standing("a.x", shares_, now_, kHalfLife), seen, 1e-12);
}

TEST_F(FairShareTest, TenantsOfThePastAreForgotten) {
  for (int i = 0; i < 10000; ++i) {
    Take(std::to_string(i));
    now_ += absl::Minutes(30);
    GiveBack(std::to_string(i));
  }
  EXPECT_LT(usage_.size(), 2000u);
}

}  // namespace
}  // namespace gpupool::scheduler
