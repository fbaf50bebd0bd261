#include "engine/serving/stage_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Builds stages that branch `depth` times and then end.
ModelGraph Branches(const StageAnswers& answers, size_t depth) {
  ModelGraph stage;
  if (answers.size() == depth) return stage;
  stage.stage_end = std::make_shared<StageEnd>(
      StageEnd{.kind = StageEnd::Kind::kBranch,
               .node = "If 'c'",
               .place = std::to_string(answers.size())});
  return stage;
}

absl::StatusOr<std::vector<StageAnswers>> PlannedStages(
    const std::function<ModelGraph(const StageAnswers&)>& build) {
  std::vector<StageAnswers> planned;
  StagePlanner planner(
      [&](const StageAnswers& answers) -> absl::StatusOr<ModelGraph> {
        return build(answers);
      },
      [&](const StageAnswers& answers, ModelGraph) {
        planned.push_back(answers);
        return absl::OkStatus();
      });
  const absl::Status status = planner.Plan(build({}));
  if (!status.ok()) return status;
  return planned;
}

TEST(StagePlanTest, EachBranchIsPlannedOnce) {
  const auto planned = PlannedStages(
      [](const StageAnswers& answers) { return Branches(answers, 2); });
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_THAT(*planned, ElementsAre(StageAnswers{}, StageAnswers{1},
                                    StageAnswers{1, 1}, StageAnswers{1, 0},
                                    StageAnswers{0}, StageAnswers{0, 1}));
}

TEST(StagePlanTest, ManyBranchesDoNotMultiply) {
  const auto planned = PlannedStages(
      [](const StageAnswers& answers) { return Branches(answers, 12); });
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_LT(planned->size(), 13u * 13u);
  const auto more = PlannedStages(
      [](const StageAnswers& answers) { return Branches(answers, 100); });
  EXPECT_THAT(more.status().message(), HasSubstr("If 'c': more than 128"));
}

constexpr uint64_t kRowBytes = 64;

TensorType Bytes(int64_t bytes) {
  return {DType::kUint8, *Shape::CreateMaybeEmpty({bytes})};
}

// Builds a loop of 10 iterations that carries 64 bytes and stacks rows of 64
// bytes. A branch in its body passes on 6400 bytes.
ModelGraph LoopWithBranch(const StageAnswers& answers) {
  ModelGraph stage;
  StageEnd end{.place = "1", .states = {{"s", Bytes(64)}}};
  if (answers.empty()) {
    end.kind = StageEnd::Kind::kLoop;
    end.trips = 10;
    end.goes_on = true;
  } else if (answers[0] == kLeaveLoop) {
    return stage;
  } else if (answers.size() == 4) {
    end = {.kind = StageEnd::Kind::kBranch, .place = "1/2", .kept = {"k"}};
    stage.outputs = {
        {.name = "k", .dtype = DType::kUint8, .shape = Bytes(6400).shape}};
  } else {
    end.kind = StageEnd::Kind::kIteration;
    end.rows = {{"r", Bytes(kRowBytes)}};
    end.goes_on = true;
  }
  stage.stage_end = std::make_shared<StageEnd>(std::move(end));
  return stage;
}

TEST(StagePlanTest, LaterIterationsHaveRowsBesidesWhatTheFirstPassesOn) {
  StagePlanner planner(
      [](const StageAnswers& answers) -> absl::StatusOr<ModelGraph> {
        return LoopWithBranch(answers);
      },
      [](const StageAnswers&, ModelGraph) { return absl::OkStatus(); });
  const absl::Status planned = planner.Plan(LoopWithBranch({}));
  ASSERT_TRUE(planned.ok()) << planned;
  EXPECT_EQ(planner.PassedBytes(), 6400 + 10 * kRowBytes);
}

}  // namespace
}  // namespace gpupool::engine
