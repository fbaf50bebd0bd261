#include "server/control/jobs/plan_cache.h"

#include <gtest/gtest.h>

#include <limits>

#include "gpupool/v1/job.pb.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {
namespace {

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_model()->add_input_shape(64);
  spec.mutable_training()->set_batch_size(32);
  spec.mutable_data()->set_dataset("digits");
  return spec;
}

PlanCache::Plan PlanOf(uint64_t steps) {
  worker::v1::PlanReply plan;
  plan.set_total_steps(steps);
  return std::make_shared<const worker::v1::PlanReply>(plan);
}

TEST(PlanCache, NamesAndTimesAreNoPartOfTheKey) {
  v1::JobSpec other = Spec();
  other.set_name("another");
  other.set_tenant("else");
  other.set_priority(7);
  other.set_hold(true);
  other.add_after_ok(3);
  other.set_max_run_seconds(5);
  other.set_host_cores(1.5);
  other.set_host_bytes(7);
  other.mutable_retry()->set_max_attempts(9);
  other.mutable_data()->set_shuffle(false);
  other.mutable_training()->mutable_profile()->set_wait(3);
  EXPECT_EQ(PlanCache::KeyOf(Spec(), 1), PlanCache::KeyOf(other, 1));
}

TEST(PlanCache, WhatBytesAndStepsDependOnIs) {
  const std::string key = PlanCache::KeyOf(Spec(), 1);
  EXPECT_NE(key, PlanCache::KeyOf(Spec(), 2));
  EXPECT_NE(key, PlanCache::KeyOf(Spec(), 1, 2));
  EXPECT_NE(PlanCache::KeyOf(Spec(), 1, 2), PlanCache::KeyOf(Spec(), 1, 3));
  const auto differs = [&](const auto& change) {
    v1::JobSpec spec = Spec();
    change(spec);
    return PlanCache::KeyOf(spec, 1) != key;
  };
  EXPECT_TRUE(differs([](v1::JobSpec& spec) {
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  }));
  EXPECT_TRUE(differs(
      [](v1::JobSpec& spec) { spec.mutable_training()->set_batch_size(33); }));
  EXPECT_TRUE(differs(
      [](v1::JobSpec& spec) { spec.mutable_training()->mutable_adam(); }));
  EXPECT_TRUE(differs([](v1::JobSpec& spec) { spec.set_device("cuda"); }));
  EXPECT_TRUE(differs([](v1::JobSpec& spec) { spec.set_devices(2); }));
  EXPECT_TRUE(differs([](v1::JobSpec& spec) {
    spec.mutable_data()->mutable_held_out()->set_every(5);
  }));
  EXPECT_TRUE(differs(
      [](v1::JobSpec& spec) { spec.mutable_data()->set_drop_last(false); }));
  EXPECT_TRUE(differs([](v1::JobSpec& spec) {
    spec.mutable_publish()->mutable_serving()->set_max_batch_size(3);
  }));
}

v1::JobSpec WithRate(double rate) {
  v1::JobSpec spec = Spec();
  spec.mutable_training()->mutable_adam()->set_learning_rate(rate);
  return spec;
}

TEST(PlanCache, SeedsAndRatesAreNoPartOfTheKey) {
  v1::JobSpec other = Spec();
  other.mutable_training()->set_seed(7);
  EXPECT_EQ(PlanCache::KeyOf(Spec(), 1), PlanCache::KeyOf(other, 1));
  EXPECT_EQ(PlanCache::KeyOf(WithRate(0.1), 1),
            PlanCache::KeyOf(WithRate(0.2), 1));
}

TEST(PlanCache, TheSeedOfSyntheticRowsIsNoPartOfTheKey) {
  v1::JobSpec one = Spec();
  v1::SyntheticData& data = *one.mutable_data()->mutable_synthetic();
  data.set_kind(v1::SyntheticData::BLOBS);
  v1::JobSpec other = one;
  other.mutable_data()->mutable_synthetic()->set_seed(7);
  EXPECT_EQ(PlanCache::KeyOf(one, 0), PlanCache::KeyOf(other, 0));
  other.mutable_data()->mutable_synthetic()->set_rows(7);
  EXPECT_NE(PlanCache::KeyOf(one, 0), PlanCache::KeyOf(other, 0));
  EXPECT_NE(PlanCache::KeyOf(Spec(), 0), PlanCache::KeyOf(one, 0));
}

// Planning refuses them, so they must be planned.
TEST(PlanCache, RatesThatMayBeRefusedAre) {
  const std::string key = PlanCache::KeyOf(WithRate(0.1), 1);
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_NE(PlanCache::KeyOf(WithRate(rate), 1), key) << rate;
  }
  v1::JobSpec scheduled = WithRate(0.1);
  scheduled.mutable_training()->mutable_schedule();
  v1::JobSpec another = WithRate(0.2);
  another.mutable_training()->mutable_schedule();
  EXPECT_NE(PlanCache::KeyOf(scheduled, 1), PlanCache::KeyOf(another, 1));
}

TEST(PlanCache, TheOneLongestUnusedGoesFirst) {
  PlanCache cache(2);
  cache.Add("a", PlanOf(1));
  cache.Add("b", PlanOf(2));
  EXPECT_NE(cache.Find("a"), nullptr);
  cache.Add("c", PlanOf(3));
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_EQ(cache.Find("a")->total_steps(), 1);
  EXPECT_EQ(cache.Find("c")->total_steps(), 3);
}

TEST(PlanCache, KeepsTheFirstAndForgetsAllWhenCleared) {
  PlanCache cache;
  cache.Add("a", PlanOf(1));
  cache.Add("a", PlanOf(2));
  EXPECT_EQ(cache.Find("a")->total_steps(), 1);
  cache.Clear();
  EXPECT_EQ(cache.Find("a"), nullptr);
  cache.Add("a", PlanOf(2));
  EXPECT_EQ(cache.Find("a")->total_steps(), 2);
}

}  // namespace
}  // namespace gpupool::server
