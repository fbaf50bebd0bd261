#include "engine/serving/size_analysis.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ModelPort Port(const std::string& name, std::initializer_list<int64_t> dims,
               DType dtype = DType::kFloat32) {
  return {name, {}, dtype, Shape(dims), true};
}

// The model has ids [1, s], out [1, s, 4] and half [1, s / 2].
class SizeAnalysisTest : public ::testing::Test {
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
  const auto sizes =
      SizesToPlan({.dimensions = {{"a", 1, 3, {}}, {"b", 2, 5, {2, 4, 5}}}});
  ASSERT_TRUE(sizes.ok());
  EXPECT_THAT(*sizes, ElementsAre(ElementsAre(3, 5), ElementsAre(3, 4),
                                  ElementsAre(3, 2), ElementsAre(1, 5),
                                  ElementsAre(1, 4), ElementsAre(1, 2)));
  EXPECT_THAT(*SizesToPlan({}), ElementsAre(IsEmpty()));
}

TEST(SizesToPlanTest, TooManyCombinationsAreRefused) {
  ServedDimension many{"a", 1, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  EXPECT_THAT(SizesToPlan({.dimensions = {many, many}}).status().message(),
              HasSubstr("more than 32 combinations"));
}

TEST(SizesToPlanTest, SizesThatGiveANegativeOneAreLeftOut) {
  ServedSizes served{.dimensions = {{"a", 1, 3, {}}, {"b", 0, 2, {}}}};
  served.derived.insert({"rest", *SizeExpression::Parse("a - b")});
  EXPECT_THAT(
      *SizesToPlan(served),
      ElementsAre(ElementsAre(3, 2), ElementsAre(3, 0), ElementsAre(1, 0)));
  served.dimensions[0].maximum = 1;
  EXPECT_THAT(SizesToPlan(served).status().message(),
              HasSubstr("dimension 'rest': the size 'a - b' is -1"));
}

TEST(SizesToProbeTest, OneSizeIsComparedWithTheOneBelow) {
  EXPECT_THAT(SizesToProbe({.dimensions = {{"a", 1, 3, {}}, {"b", 5, 5, {5}}}}),
              ElementsAre(ElementsAre(3, 4)));
  EXPECT_THAT(SizesToProbe({.dimensions = {{"a", 1, 1, {}}}}), IsEmpty());
}

TEST(SizesToProbeTest, WithDerivedSizesRangesAreComparedInTheMiddle) {
  ServedSizes served{
      .dimensions = {{"a", 1, 3, {}}, {"b", 0, 8, {}}, {"c", 1, 4, {1, 4}}}};
  served.derived.insert({"rest", *SizeExpression::Parse("b + a - 6")});
  EXPECT_THAT(SizesToProbe(served),
              ElementsAre(ElementsAre(2, 8, 4), ElementsAre(3, 4, 4)));
}

// The model has ids [1, s], mask [1, p + s] and cache [1, p], and the outputs
// present [1, p + s] and odd [1, p * s].
class DerivedAnalysisTest : public ::testing::Test {
 protected:
  DerivedAnalysisTest() {
    served_.dimensions = {{"p", 0, 8, {}}, {"s", 1, 4, {1, 4}}};
    const auto total = *SizeExpression::Parse("p + s");
    served_.derived.insert({"p + s", total});
    served_.derived_axes.push_back({"mask", 1, total});
    programs_.inputs = {{Port("ids", {1, 4})},
                        {Port("mask", {1, 12})},
                        {Port("cache", {1, 8})}};
    programs_.outputs = {{Port("present", {1, 12})}, {Port("odd", {1, 32})}};
  }
  absl::Status Analyse() {
    SizeAnalysis analysis;
    for (const auto& [p, s] :
         {std::pair<int64_t, int64_t>{8, 4}, {8, 1}, {0, 4}, {0, 1}, {4, 4}}) {
      ModelGraph model;
      const auto port = [](const char* name, int64_t size) {
        return ModelPort{name,
                         {},
                         DType::kFloat32,
                         *Shape::CreateMaybeEmpty({1, size}),
                         true};
      };
      model.inputs = {port("ids", s), port("mask", p + s), port("cache", p)};
      model.outputs = {port("present", p + s), port("odd", odd_(p, s))};
      analysis.Add({p, s}, model);
    }
    return analysis.Finish(served_, programs_);
  }
  ServedSizes served_;
  InferencePrograms programs_;
  std::function<int64_t(int64_t, int64_t)> odd_ = std::multiplies<>();
};

TEST_F(DerivedAnalysisTest, DeclaredSizesAndOutputsThatFitThemAreFound) {
  const absl::Status status = Analyse();
  ASSERT_TRUE(status.ok()) << status;
  const auto& mask = programs_.inputs[1].variable;
  ASSERT_THAT(mask, SizeIs(1));
  EXPECT_EQ(mask[0].dimension, -1);
  EXPECT_EQ(mask[0].size->text(), "p + s");
  EXPECT_EQ(mask[0].maximum, 12);
  EXPECT_EQ(programs_.inputs[2].variable[0].dimension, 0);
  const auto& present = programs_.outputs[0].variable;
  ASSERT_THAT(present, SizeIs(1));
  EXPECT_EQ(present[0].size->text(), "p + s");
  EXPECT_EQ(*present[0].Size(served_, {3, 4}), 7);
  EXPECT_TRUE(present[0].Follows(served_, 0));
  EXPECT_FALSE(programs_.outputs[1].variable[0].IsKnown());
}

TEST_F(DerivedAnalysisTest, ADeclaredSizeOfAnOutputMustHold) {
  served_.derived_axes.push_back({"odd", 1, *SizeExpression::Parse("p * s")});
  served_.derived_axes.push_back(
      {"present", 1, *SizeExpression::Parse("p + 2")});
  ASSERT_TRUE(Analyse().ok());
  EXPECT_EQ(programs_.outputs[1].variable[0].size->text(), "p * s");
  EXPECT_EQ(programs_.outputs[0].variable[0].size->text(), "p + s");
}

TEST_F(DerivedAnalysisTest, OnlyTheLastTermOfASumIsPadded) {
  served_.padding = {{"ids", 0}, {"mask", 0}};
  served_.derived.insert({"odd", *SizeExpression::Parse("2 * p + s")});
  odd_ = [](int64_t p, int64_t s) { return 2 * p + s; };
  const absl::Status status = Analyse();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(DerivedAnalysisTest, OtherSizesOfAPaddedDimensionAreNotPadded) {
  served_.padding = {{"ids", 0}, {"mask", 0}};
  served_.derived_axes[0].size = *SizeExpression::Parse("s + p");
  EXPECT_THAT(
      std::string(Analyse().message()),
      HasSubstr("dimension 1 of input 'mask' is 's + p'; numbers at its "
                "end pad 's' only if that is the last term of a sum"));
}

TEST_F(DerivedAnalysisTest, RequestsMustTellEachSize) {
  programs_.inputs.erase(programs_.inputs.begin());
  programs_.outputs.clear();
  SizeAnalysis analysis;
  for (const int64_t s : {4, 1}) {
    ModelGraph model;
    model.inputs = {Port("mask", {1, 8 + s}), Port("cache", {1, 8})};
    analysis.Add({8, s}, model);
  }
  served_.dimensions[0] = {"p", 8, 8, {8}};
  EXPECT_THAT(std::string(analysis.Finish(served_, programs_).message()),
              AllOf(HasSubstr("no input of the model has a dimension"),
                    HasSubstr("requests do not tell its size")));
}

}  // namespace
}  // namespace gpupool::engine
