#include "scheduler/simulator/policies.h"

#include <gtest/gtest.h>

#include <set>

namespace gpupool::scheduler {
namespace {

TEST(PoliciesTest, EveryWordNamesOneOrderAndIsFound) {
  std::set<absl::string_view> words;
  std::set<Order> orders;
  for (const NamedPolicy& policy : NamedPolicies()) {
    EXPECT_TRUE(words.insert(policy.word).second) << policy.word;
    EXPECT_TRUE(orders.insert(policy.order).second) << policy.word;
    EXPECT_FALSE(policy.text.empty());
    EXPECT_EQ(FindPolicy(policy.word), &policy);
  }
  EXPECT_EQ(FindPolicy("alphabetical"), nullptr);
}

TEST(PoliciesTest, OnlyThoseThatNeedRunTimesSeeThem) {
  EXPECT_TRUE(FindPolicy("srs")->sees_run_times);
  EXPECT_FALSE(FindPolicy("las")->sees_run_times);
  EXPECT_FALSE(FindPolicy("fifo")->sees_run_times);
}

}  // namespace
}  // namespace gpupool::scheduler
