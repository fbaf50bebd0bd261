#include "engine/import/onnx/graph/import_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

TEST(ImportBudgetTest, OperationsAreTakenUntilTooFewAreLeft) {
  ImportBudget budget(100);
  EXPECT_TRUE(budget.Compute(60).ok());
  EXPECT_EQ(budget.operations_left(), 40);
  const absl::Status refused = budget.Compute(41);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("41 element operations, but 40 are left"));
  // A refused request takes nothing: smaller values can still be computed.
  EXPECT_TRUE(budget.Compute(40).ok());
  EXPECT_FALSE(budget.Compute(1).ok());
}

TEST(ImportBudgetTest, PartsAreCountedUpToTheLimit) {
  ImportBudget budget(0);
  EXPECT_TRUE(budget.Visit(kMaxVisitedParts - 1).ok());
  EXPECT_TRUE(budget.Visit(1).ok());
  EXPECT_EQ(budget.visited_parts(), kMaxVisitedParts);
  EXPECT_THAT(std::string(budget.Visit(1).message()),
              HasSubstr(absl::StrCat(kMaxVisitedParts)));
  EXPECT_FALSE(budget.Visit(std::numeric_limits<int64_t>::max()).ok());
}

TEST(ImportBudgetTest, WhatIsHeldStaysHeld) {
  ImportBudget budget(0);
  EXPECT_TRUE(budget.Hold(kMaxHeldBytes).ok());
  EXPECT_TRUE(budget.CheckHeld().ok());
  EXPECT_EQ(budget.Hold(1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(budget.CheckHeld().ok());
}

TEST(ImportBudgetTest, LargeFilesMayHoldMore) {
  ImportBudget budget(0, 1000);
  const uint64_t limit = kMaxHeldBytes + 1000 * kHeldPerFileByte;
  EXPECT_TRUE(budget.CheckRoom(limit).ok());
  EXPECT_FALSE(budget.CheckRoom(limit + 1).ok());
  EXPECT_THAT(std::string(budget.CheckRoom(limit + 1).message()),
              HasSubstr(absl::StrCat(limit)));
}

TEST(ImportBudgetTest, AnOverdraftShowsLater) {
  ImportBudget budget(0);
  budget.HoldUnchecked(kMaxHeldBytes + 1);
  EXPECT_FALSE(budget.CheckHeld().ok());
}

TEST(ImportBudgetTest, BytesBeyondCountingAreRefused) {
  ImportBudget budget(0);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(budget.CheckRoom(kMost).ok());
  EXPECT_TRUE(budget.Hold(1).ok());
  EXPECT_FALSE(budget.CheckRoom(kMost).ok());
  EXPECT_FALSE(budget.Hold(kMost).ok());
  EXPECT_EQ(budget.held_bytes(), kMost);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
