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

}  // namespace
}  // namespace gpupool::engine
