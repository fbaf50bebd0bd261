#include "scheduler/yield/preemption_reasons.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gpupool::scheduler {
namespace {

TEST(PreemptionReasonsTest, EveryReasonHasItsRowAndALabelOfItsOwn) {
  std::set<std::string> labels;
  int next = 0;
  for (const PreemptionRow& row : PreemptionRows()) {
    EXPECT_EQ(static_cast<int>(row.reason), next++);
    EXPECT_EQ(&RowOf(row.reason), &row);
    EXPECT_FALSE(row.own.empty()) << row.label;
    labels.emplace(row.label);
  }
  EXPECT_EQ(next, static_cast<int>(PreemptionReason::kReservation) + 1);
  EXPECT_EQ(labels.size(), PreemptionRows().size());
}

TEST(PreemptionReasonsTest, NobodyIsToldToStopWithoutACheckpoint) {
  for (const PreemptionRow& row : PreemptionRows()) {
    EXPECT_NE(row.stop, StopReason::kCancelled) << row.label;
  }
}

}  // namespace
}  // namespace gpupool::scheduler
