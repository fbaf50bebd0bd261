#include "engine/serving/size_analysis.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ModelPort Port(const std::string& name, std::initializer_list<int64_t> dims,
               DType dtype = DType::kFloat32) {
  return {name, {}, dtype, Shape(dims), true};
}

// The model has ids [1, s], out [1, s, 4] and half [1, s / 2].
class SizeAnalysisTest : public testing::Test {
 protected:
  SizeAnalysisTest() {
    served_.dimensions = {{"s", 4, 8, {4, 8}}};
    programs_.inputs = {{Port("ids", {1, 8}, DType::kInt64)}};
    programs_.outputs = {{Port("out", {1, 8, 4})}, {Port("half", {1, 4})}};
  }

  absl::Status Analyse(bool with_half = true) {
    if (!with_half) programs_.outputs.pop_back();
    SizeAnalysis analysis;
    for (int64_t s : {8, 4}) {
      ModelGraph model;
      model.inputs = {Port("ids", {1, s}, DType::kInt64)};
      model.outputs = {Port("out", {1, s, 4})};
      if (with_half) model.outputs.push_back(Port("half", {1, s / 2}));
      analysis.Add({s}, model);
    }
    return analysis.Finish(served_, programs_);
  }

  ServedSizes served_;
  InferencePrograms programs_;
};

TEST_F(SizeAnalysisTest, DimensionsAreFoundBySizesThatFollow) {
  ASSERT_TRUE(Analyse().ok());
  const auto& out = programs_.outputs[0].variable;
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0].axis, 1);
  EXPECT_EQ(out[0].dimension, 0);
  const auto& half = programs_.outputs[1].variable;
  ASSERT_THAT(half, SizeIs(1));
  EXPECT_EQ(half[0].dimension, -1);
  EXPECT_EQ(half[0].maximum, 4);
  EXPECT_THAT(programs_.inputs[0].variable, SizeIs(1));
}

TEST_F(SizeAnalysisTest, WhatCannotBeCutBackForbidsPadding) {
  served_.padding["ids"] = 0;
  EXPECT_THAT(Analyse().message(),
              HasSubstr("dimension 1 of output 'half' follows from 's'"));
}

TEST_F(SizeAnalysisTest, PaddingMustBeANumberOfTheInput) {
  served_.padding["ids"] = 0.5;
  EXPECT_THAT(Analyse(false).message(), HasSubstr("0.5 is no number of input"));
}

TEST_F(SizeAnalysisTest, PaddingOfAnUnknownInputIsRefused) {
  served_.padding["mask"] = 0;
  EXPECT_THAT(Analyse(false).message(), HasSubstr("no input 'mask'"));
}

TEST_F(SizeAnalysisTest, RangesAreNotPadded) {
  served_.dimensions[0].sizes.clear();
  served_.padding["ids"] = 0;
  EXPECT_THAT(Analyse(false).message(),
              HasSubstr("'ids' has no dimension with listed sizes"));
}

TEST_F(SizeAnalysisTest, ADimensionOfNoInputIsRefused) {
  served_.dimensions.push_back({"width", 1, 9, {}});
  SizeAnalysis analysis;
  ModelGraph model;
  model.inputs = {Port("ids", {1, 8}, DType::kInt64)};
  model.outputs = {Port("out", {1, 8, 4}), Port("half", {1, 4})};
  analysis.Add({8, 9}, model);
  analysis.Add({8, 1}, model);
  EXPECT_THAT(analysis.Finish(served_, programs_).message(),
              HasSubstr("no input of the model has a dimension"));
}

TEST(SizesToPlanTest, TheLargestAreFirst) {
  const auto sizes = SizesToPlan({{"a", 1, 3, {}}, {"b", 2, 5, {2, 4, 5}}});
  ASSERT_TRUE(sizes.ok());
  EXPECT_THAT(*sizes, ElementsAre(ElementsAre(3, 5), ElementsAre(3, 4),
                                  ElementsAre(3, 2), ElementsAre(1, 5),
                                  ElementsAre(1, 4), ElementsAre(1, 2)));
  EXPECT_THAT(*SizesToPlan({}), ElementsAre(IsEmpty()));
}

TEST(SizesToPlanTest, TooManyCombinationsAreRefused) {
  ServedDimension many{"a", 1, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  EXPECT_THAT(SizesToPlan({many, many}).status().message(),
              HasSubstr("more than 32 combinations"));
}

TEST(SizesToProbeTest, OneSizeIsComparedWithTheOneBelow) {
  EXPECT_THAT(SizesToProbe({{"a", 1, 3, {}}, {"b", 5, 5, {5}}}),
              ElementsAre(ElementsAre(3, 4)));
  EXPECT_THAT(SizesToProbe({{"a", 1, 1, {}}}), IsEmpty());
}

}  // namespace
}  // namespace gpupool::engine
