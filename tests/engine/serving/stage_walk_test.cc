#include "engine/serving/stage_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorType Floats(std::vector<int64_t> dims) {
  return {DType::kFloat32, *Shape::CreateMaybeEmpty(dims)};
}

// A loop with one state and one stacked output.
StageEnd Loop(StageEnd::Kind kind) {
  return {.kind = kind,
          .node = "Loop 'l'",
          .place = "3",
          .states = {{"s", Floats({2})}},
          .rows = {{"r", Floats({4})}}};
}

TEST(StageWalkTest, ALoopReturnsToItsBodyAndEnds) {
  StageWalk walk{StageStore()};
  walk.TakeBranch(true);
  StageEnd begin = Loop(StageEnd::Kind::kLoop);
  begin.trips = 3;
  ASSERT_TRUE(walk.BeginLoop(begin, 3, true).ok());
  const StageAnswers body = walk.answers();
  EXPECT_EQ(body[0], 1);
  EXPECT_EQ(body[1], kEnterLoop);
  const StageEnd end = Loop(StageEnd::Kind::kIteration);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(walk.answers(), body);
    walk.TakeBranch(false);  // in the body
    const auto rows = walk.AddRows(end);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ((*rows)[0].offset, 16 * i);
    EXPECT_EQ(walk.store().size((*rows)[0].name), 48u);
    ASSERT_TRUE(walk.EndIteration(end, true).ok());
  }
  StageAnswers after{1, kLeaveLoop, 3};
  AppendType(Floats({2}), after);
  AppendType(Floats({4}), after);
  EXPECT_EQ(walk.answers(), after);
}

TEST(StageWalkTest, ALoopWithoutTripsIsSkipped) {
  StageWalk walk{StageStore()};
  const StageEnd begin = Loop(StageEnd::Kind::kLoop);
  ASSERT_TRUE(walk.BeginLoop(begin, -1, true).ok());
  StageAnswers after{kLeaveLoop, 0};
  AppendType(Floats({2}), after);
  EXPECT_EQ(walk.answers(), after);
}

TEST(StageWalkTest, ALoopWithoutATripCountHasALimit) {
  StageEnd begin = Loop(StageEnd::Kind::kLoop);
  EXPECT_EQ(PlannedTrips(begin), kMaxComputedTrips);
  begin.trips = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(PlannedTrips(begin), kMaxComputedTrips);
  begin.trips = 20000;
  EXPECT_EQ(PlannedTrips(begin), 20000);
  begin.trips.reset();
  StageWalk walk{StageStore()};
  ASSERT_TRUE(
      walk.BeginLoop(begin, std::numeric_limits<int64_t>::max(), true).ok());
  const StageEnd end = Loop(StageEnd::Kind::kIteration);
  for (int64_t i = 1; i < kMaxComputedTrips; ++i) {
    ASSERT_TRUE(walk.EndIteration(end, true).ok());
  }
  EXPECT_THAT(walk.EndIteration(end, true).message(),
              HasSubstr("Loop 'l': the loop goes on after 10000 iterations"));
}

TEST(StageWalkTest, RowsMustHaveOneShapeAndFit) {
  StageWalk walk{StageStore()};
  StageEnd begin = Loop(StageEnd::Kind::kLoop);
  begin.trips = 1 << 20;
  ASSERT_TRUE(walk.BeginLoop(begin, 1 << 20, true).ok());
  StageEnd end = Loop(StageEnd::Kind::kIteration);
  end.rows[0].type = Floats({1 << 30});
  EXPECT_THAT(walk.AddRows(end).status().message(),
              HasSubstr("more than any device has"));
  end = Loop(StageEnd::Kind::kIteration);
  ASSERT_TRUE(walk.AddRows(end).ok());
  ASSERT_TRUE(walk.EndIteration(end, true).ok());
  end.rows[0].type = Floats({5});
  EXPECT_THAT(walk.AddRows(end).status().message(),
              HasSubstr("shape [5] in iteration 1 and [4] in the first"));
}

TEST(StageWalkTest, RowsOfALoopSurviveStagesOfItsBody) {
  StageWalk walk{StageStore()};
  StageEnd begin = Loop(StageEnd::Kind::kLoop);
  begin.trips = 2;
  ASSERT_TRUE(walk.BeginLoop(begin, 2, true).ok());
  const StageEnd end = Loop(StageEnd::Kind::kIteration);
  const auto rows = walk.AddRows(end);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(walk.EndIteration(end, true).ok());
  StageEnd branch{.kind = StageEnd::Kind::kBranch, .kept = {"v"}};
  const auto made = walk.Receive(branch, {{"v", 8}, {"w", 8}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(*made, ElementsAre("v"));
  EXPECT_TRUE(walk.store().Has((*rows)[0].name));
  EXPECT_FALSE(walk.store().Has("w"));
}

}  // namespace
}  // namespace gpupool::engine
