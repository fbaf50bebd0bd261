#include "scheduler/simulator/policies.h"

#include <gtest/gtest.h>

#include <set>

namespace gpupool::scheduler {
namespace {

TEST(PoliciesTest, EachOrderIsThereOnceAndIsFoundByItsWord) {
  std::set<Order> orders;
  for (const SimulatedPolicy& policy : SimulatedPolicies()) {
    EXPECT_TRUE(orders.insert(policy.order).second) << policy.word();
    EXPECT_FALSE(policy.text.empty());
    EXPECT_EQ(FindPolicy(policy.word()), &policy);
    EXPECT_EQ(ParseOrder(policy.word()).value(), policy.order);
  }
  EXPECT_EQ(FindPolicy("alphabetical"), nullptr);
}

TEST(PoliciesTest, OnlyThoseThatNeedRunTimesSeeThem) {
  EXPECT_TRUE(FindPolicy("srs")->sees_run_times);
  EXPECT_TRUE(FindPolicy("easy")->sees_run_times);
  EXPECT_FALSE(FindPolicy("las")->sees_run_times);
  EXPECT_FALSE(FindPolicy("fair")->sees_run_times);
  EXPECT_FALSE(FindPolicy("fifo")->sees_run_times);
}

}  // namespace
}  // namespace gpupool::scheduler
