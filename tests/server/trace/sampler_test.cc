#include "server/trace/sampler.h"

#include <gtest/gtest.h>

#include "server/trace/random_ids.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kLargest = ~uint64_t{0};

TEST(SamplerTest, ZeroChoosesNoneAndOneChoosesAll) {
  const Sampler none(0, 100);
  const Sampler all(1, 100);
  for (const uint64_t random : {uint64_t{0}, uint64_t{1} << 55, kLargest}) {
    EXPECT_FALSE(none.Chooses(random));
    EXPECT_TRUE(all.Chooses(random));
  }
}

TEST(SamplerTest, ChoosesAboutTheShare) {
  const Sampler sampler(0.25, 100);
  RandomIds ids(1, 2);
  int chosen = 0;
  for (int i = 0; i < 100000; ++i) chosen += sampler.Chooses(ids.Next());
  // Five standard deviations are 685.
  EXPECT_NEAR(chosen, 25000, 700);
}

TEST(SamplerTest, TheUpperBitsHaveNoInfluence) {
  const Sampler sampler(0.5, 100);
  EXPECT_TRUE(sampler.Chooses((uint64_t{0xff} << 56) | 1));
  EXPECT_FALSE(sampler.Chooses((uint64_t{1} << 56) - 1));
}

TEST(SamplerTest, TheShareCanBeChanged) {
  Sampler sampler(0.5, 100);
  EXPECT_DOUBLE_EQ(sampler.share(), 0.5);
  sampler.SetShare(0);
  EXPECT_FALSE(sampler.Chooses(0));
  sampler.SetShare(1);
  EXPECT_TRUE(sampler.Chooses(kLargest));
}

TEST(SamplerTest, AllowsSoManyClientsASecond) {
  Sampler sampler(0, 10);
  absl::Time now = absl::UnixEpoch();
  int allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += sampler.AllowsClient(now);
  EXPECT_EQ(allowed, 10);
  now += absl::Milliseconds(250);
  for (int i = 0; i < 100; ++i) allowed += sampler.AllowsClient(now);
  EXPECT_EQ(allowed, 12);
  now += absl::Hours(1);
  for (int i = 0; i < 100; ++i) allowed += sampler.AllowsClient(now);
  EXPECT_EQ(allowed, 22);
}

TEST(SamplerTest, AClockThatIsSetBackAllowsNothingNew) {
  Sampler sampler(0, 1);
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_TRUE(sampler.AllowsClient(now));
  EXPECT_FALSE(sampler.AllowsClient(now - absl::Minutes(5)));
  EXPECT_FALSE(sampler.AllowsClient(now));
  EXPECT_TRUE(sampler.AllowsClient(now + absl::Seconds(1)));
}

}  // namespace
}  // namespace gpupool::server
