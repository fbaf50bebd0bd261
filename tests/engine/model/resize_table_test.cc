// Expected numbers are those of the ONNX operator tests, rounded to float32,
// unless a test gives another source.
#include "engine/model/resize_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/backends/reference/interpreter.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using Numbers = reference::Numbers;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

MATCHER(Near, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) <
         2e-6 * (1 + std::abs(std::get<1>(arg)));
}

ResizeTarget Scale(int axis, double scale) {
  return {.axis = axis, .scale = static_cast<float>(scale), .size = {}};
}
ResizeTarget Size(int axis, int64_t size) {
  return {.axis = axis, .scale = {}, .size = size};
}

// Applies the table to 1, 2, 3, ... in that shape.
Numbers Resized(const Shape& shape, const ResizeTable& table) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat64, shape});
  auto y = builder.EmitOne(Op::kResize, {x}, table.attributes);
  EXPECT_TRUE(y.ok()) << y.status();
  if (!y.ok()) return {};
  EXPECT_EQ(builder.shape(*y), table.shape);
  graph.AddOutput("y", *y);
  Numbers numbers;
  for (int64_t i = 1; i <= shape.elements(); ++i) {
    numbers.push_back(static_cast<double>(i));
  }
  reference::NamedNumbers none;
  auto outputs = reference::Run(graph, {{"x", numbers}}, none);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)["y"] : Numbers{};
}

Numbers Resized(const Shape& shape, const std::vector<ResizeTarget>& targets,
                const ResizeOptions& options) {
  auto table = MakeResizeTable(shape, targets, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? Resized(shape, *table) : Numbers{};
}

std::string ResizeError(const Shape& shape,
                        const std::vector<ResizeTarget>& targets,
                        const ResizeOptions& options = {}) {
  const auto table = MakeResizeTable(shape, targets, options);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(table.status().message());
}

const Shape kSquare{4, 4};

TEST(ResizeNearestTest, RepeatsAndDropsCells) {
  EXPECT_THAT(Resized({2, 2}, {Scale(0, 2), Scale(1, 3)}, {}),
              ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2,  //
                          3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4));
  EXPECT_THAT(Resized({2, 4}, {Scale(0, 0.6), Scale(1, 0.6)}, {}),
              ElementsAre(1, 3));
  EXPECT_THAT(Resized({2, 4}, {Size(0, 1), Size(1, 3)}, {}),
              ElementsAre(1, 2, 4));
}

TEST(ResizeNearestTest, RoundsAsAsked) {
  EXPECT_THAT(Resized({4}, {Size(0, 8)}, {.rounding = ResizeRounding::kCeil}),
              ElementsAre(1, 2, 2, 3, 3, 4, 4, 4));
  EXPECT_THAT(Resized({4}, {Size(0, 8)},
                      {.coordinates = ResizeCoordinates::kAlignCorners,
                       .rounding = ResizeRounding::kFloor}),
              ElementsAre(1, 1, 1, 2, 2, 3, 3, 4));
  EXPECT_THAT(Resized({4}, {Size(0, 8)},
                      {.coordinates = ResizeCoordinates::kAsymmetric,
                       .rounding = ResizeRounding::kRoundPreferCeil}),
              ElementsAre(1, 2, 2, 3, 3, 4, 4, 4));
  // By hand: positions 0, 0.5, 1, ... with halves rounded down.
  EXPECT_THAT(Resized({4}, {Size(0, 8)},
                      {.coordinates = ResizeCoordinates::kAsymmetric}),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
}

TEST(ResizeNearestTest, HalfPixelForNearestNeighbour) {
  EXPECT_THAT(Resized(kSquare, {Size(0, 3), Size(1, 2)},
                      {.coordinates = ResizeCoordinates::kTfHalfPixelForNn}),
              ElementsAre(6, 8, 10, 12, 14, 16));
}

// In exact arithmetic every n-th cell begins a new one, even if the scale is
// rounded to a neighbouring float32.
TEST(ResizeNearestTest, SharpBordersSurviveFloatingScales) {
  int compared = 0;
  for (int64_t input : {3, 7, 10, 49, 1001}) {
    for (int64_t output = 1; output <= 3 * input; output += 1 + input / 9) {
      const double scale = static_cast<float>(static_cast<double>(output) /
                                              static_cast<double>(input));
      const ResizeOptions options{.coordinates = ResizeCoordinates::kAsymmetric,
                                  .rounding = ResizeRounding::kFloor};
      auto by_size = MakeResizeTable({input}, {Size(0, output)}, options);
      auto by_scale = MakeResizeTable(
          {input}, {{.axis = 0, .scale = scale, .size = {}}}, options);
      ASSERT_TRUE(by_size.ok() && by_scale.ok());
      // A rounded scale may be too small to reach the last cell.
      if (by_scale->shape != Shape{output}) continue;
      ++compared;
      EXPECT_EQ(by_size->attributes, by_scale->attributes);
      for (const ResizeAxis& axis : by_size->attributes.axes) {
        for (int64_t o = 0; o < output; ++o) {
          EXPECT_EQ(axis.indices[static_cast<size_t>(o)], o * input / output);
        }
      }
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(ResizeLinearTest, InterpolatesAndRepeatsTheEdge) {
  const ResizeOptions linear{.mode = ResizeMode::kLinear};
  EXPECT_THAT(Resized({2, 2}, {Scale(0, 2), Scale(1, 2)}, linear),
              ElementsAre(1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5,  //
                          2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4));
  EXPECT_THAT(Resized({2, 4}, {Scale(0, 0.6), Scale(1, 0.6)}, linear),
              Pointwise(Near(), Numbers{2.6666665, 4.333333}));
}

TEST(ResizeLinearTest, CornersMeetAndPytorchTakesTheFirstCellForOne) {
  ResizeOptions linear{.mode = ResizeMode::kLinear,
                       .coordinates = ResizeCoordinates::kAlignCorners};
  EXPECT_THAT(Resized({2, 2}, {Scale(0, 2), Scale(1, 2)}, linear),
              Pointwise(Near(), Numbers{1, 4 / 3.0, 5 / 3.0, 2,         //
                                        5 / 3.0, 2, 7 / 3.0, 8 / 3.0,   //
                                        7 / 3.0, 8 / 3.0, 3, 10 / 3.0,  //
                                        3, 10 / 3.0, 11 / 3.0, 4}));
  // The output's length is rounded to a whole number first.
  EXPECT_THAT(Resized({4}, {Scale(0, 0.8)}, linear), ElementsAre(1, 2.5, 4));
  EXPECT_THAT(Resized({4}, {Size(0, 1)}, linear), ElementsAre(1));
  linear.coordinates = ResizeCoordinates::kPytorchHalfPixel;
  EXPECT_THAT(Resized(kSquare, {Size(0, 3), Size(1, 1)}, linear),
              Pointwise(Near(), Numbers{5 / 3.0, 7, 37 / 3.0}));
}

TEST(ResizeCubicTest, MatchesTheOperatorTests) {
  const ResizeOptions cubic{.mode = ResizeMode::kCubic};
  EXPECT_THAT(Resized(kSquare, {Scale(0, 0.8), Scale(1, 0.8)}, cubic),
              Pointwise(Near(), Numbers{1.4711914, 2.78125, 4.0825195, 6.711426,
                                        8.021484, 9.322754, 11.916504,
                                        13.2265625, 14.527832}));
  EXPECT_THAT(
      Resized(kSquare, {Size(0, 3), Size(1, 3)}, cubic),
      Pointwise(Near(), Numbers{1.630787, 3.0046296, 4.3784723, 7.1261573, 8.5,
                                9.873842, 12.621528, 13.99537, 15.369213}));
  ResizeOptions asymmetric = cubic;
  asymmetric.coordinates = ResizeCoordinates::kAsymmetric;
  Numbers y = Resized(kSquare, {Scale(0, 2), Scale(1, 2)}, asymmetric);
  y.resize(8);
  EXPECT_THAT(y, Pointwise(Near(), Numbers{1, 1.40625, 2, 2.5, 3, 3.59375, 4,
                                           4.09375}));
}

TEST(ResizeCubicTest, CellsOutsideMayBeExcluded) {
  const ResizeOptions cubic{.mode = ResizeMode::kCubic,
                            .cubic_coefficient = -0.5,
                            .exclude_outside = true};
  EXPECT_THAT(Resized(kSquare, {Scale(0, 0.8), Scale(1, 0.8)}, cubic),
              Pointwise(Near(), Numbers{1.3681267, 2.6695013, 4.0133367,
                                        6.573625, 7.875, 9.218835, 11.948966,
                                        13.250341, 14.594176}));
  Numbers y = Resized(kSquare, {Scale(0, 2), Scale(1, 2)}, cubic);
  y.resize(8);
  EXPECT_THAT(
      y, Pointwise(Near(), Numbers{0.5588235, 0.8149421, 1.3569825, 1.8970588,
                                   2.3970587, 2.9371352, 3.4791756, 3.735294}));
}

// By hand: with scale 0.6 the first cell is at 1/3. It weighs the cells -1, 0,
// 1 (the first is the edge again) by 0.2, 0.8, 0.6 over 1.6.
TEST(ResizeAntialiasTest, AveragesWhenShrinking) {
  const ResizeOptions linear{.mode = ResizeMode::kLinear, .antialias = true};
  EXPECT_THAT(Resized(kSquare, {Scale(0, 0.6), Scale(1, 0.6)}, linear),
              Pointwise(Near(), Numbers{2.875, 4.5, 9.375, 11}));
  ResizeOptions inside = linear;
  inside.exclude_outside = true;
  EXPECT_NEAR(Resized({4}, {Scale(0, 0.6)}, inside)[0],
              (0.8 * 1 + 0.6 * 2) / 1.4, 1e-6);
}

TEST(ResizeAntialiasTest, ChangesNothingWhenGrowing) {
  for (ResizeMode mode : {ResizeMode::kLinear, ResizeMode::kCubic}) {
    const std::vector<ResizeTarget> targets{Scale(0, 2.5), Size(1, 7)};
    EXPECT_THAT(Resized(kSquare, targets, {.mode = mode, .antialias = true}),
                Pointwise(Near(), Resized(kSquare, targets, {.mode = mode})));
  }
}

TEST(ResizeCropTest, CellsOutsideAreMasked) {
  std::vector<ResizeTarget> targets{Size(0, 3), Size(1, 3)};
  targets[0].roi_begin = 0.4f;
  targets[0].roi_end = 1.2f;
  targets[1].roi_begin = 0.6f;
  targets[1].roi_end = 1.7f;
  const ResizeOptions options{
      .mode = ResizeMode::kLinear,
      .coordinates = ResizeCoordinates::kTfCropAndResize};
  auto table = MakeResizeTable(kSquare, targets, options);
  ASSERT_TRUE(table.ok()) << table.status();
  Numbers y = Resized(kSquare, *table);
  ASSERT_TRUE(table->mask.has_value());
  EXPECT_EQ(table->mask->shape, (Shape{3, 3}));
  for (size_t i = 0; i < y.size(); ++i) {
    if (table->mask->numbers[i] == 0) continue;
    EXPECT_EQ(y[i], 0);
    y[i] = 10;
  }
  EXPECT_THAT(y, Pointwise(Near(), Numbers{7.6000004, 10, 10, 12.400001, 10, 10,
                                           10, 10, 10}));
}

TEST(ResizeCropTest, TheMaskRepeatsAlongAxesThatStayInside) {
  std::vector<ResizeTarget> targets{Size(1, 4)};
  targets[0].roi_begin = -1;
  targets[0].roi_end = 2;
  auto table = MakeResizeTable(
      {5, 4}, targets, {.coordinates = ResizeCoordinates::kTfCropAndResize});
  ASSERT_TRUE(table.ok() && table->mask.has_value());
  EXPECT_EQ(table->mask->shape, (Shape{1, 4}));
  EXPECT_THAT(table->mask->numbers, ElementsAre(1, 0, 0, 1));
}

// By hand, from the definitions of PyTorch and ONNX.
TEST(ResizeAspectTest, BoxesAreFittedOrCovered) {
  const std::vector<ResizeTarget> targets{Size(0, 7), Size(1, 8)};
  auto fitted =
      MakeResizeTable({2, 4}, targets, {.aspect = ResizeAspect::kNotLarger});
  auto covered =
      MakeResizeTable({2, 4}, targets, {.aspect = ResizeAspect::kNotSmaller});
  ASSERT_TRUE(fitted.ok() && covered.ok());
  EXPECT_EQ(fitted->shape, (Shape{4, 8}));
  EXPECT_EQ(covered->shape, (Shape{7, 14}));
}

TEST(ResizeSymmetricTest, KeepsTheMiddleWhereTheLengthIsRounded) {
  const ResizeOptions options{
      .mode = ResizeMode::kLinear,
      .coordinates = ResizeCoordinates::kHalfPixelSymmetric};
  // 4 * 0.6 = 2.4, cut to 2: positions 2 * (1 - 2 / 2.4) + (o + 0.5) / 0.6 -
  // 0.5 = 2/3 and 7/3.
  EXPECT_THAT(Resized({4}, {Scale(0, 0.6)}, options),
              Pointwise(Near(), Numbers{5 / 3.0, 10 / 3.0}));
}

TEST(ResizeTableTest, AxesThatStayHaveNoTable) {
  for (ResizeMode mode :
       {ResizeMode::kNearest, ResizeMode::kLinear, ResizeMode::kCubic}) {
    auto table =
        MakeResizeTable({3, 5}, {Scale(0, 1), Size(1, 5)}, {.mode = mode});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(table->attributes.axes, IsEmpty());
    EXPECT_EQ(table->shape, (Shape{3, 5}));
    EXPECT_FALSE(table->mask.has_value());
  }
}

TEST(ResizeTableTest, LengthsAreThoseOfFloat32) {
  auto table = MakeResizeTable({10}, {Scale(0, 0.7)}, {});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->shape, (Shape{7}));
}

TEST(ResizeTableTest, NothingStaysNothing) {
  const Shape none = *Shape::CreateMaybeEmpty({{0, 3}});
  for (ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kCubic}) {
    const ResizeOptions options{.mode = mode, .antialias = true};
    auto table = MakeResizeTable(none, {Scale(0, 2), Size(1, 0)}, options);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->shape, *Shape::CreateMaybeEmpty({{0, 0}}));
    EXPECT_THAT(Resized(none, *table), IsEmpty());
  }
  EXPECT_THAT(ResizeError(none, {Size(0, 2)}), HasSubstr("no cells"));
}

TEST(ResizeTableTest, RefusesNumbersOutOfRange) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ResizeError({4}, {Size(1, 2)}), HasSubstr("axis 1"));
  EXPECT_THAT(ResizeError({4}, {Size(0, 2), Scale(0, 2)}), HasSubstr("twice"));
  EXPECT_THAT(ResizeError({4}, {{}}), HasSubstr("either"));
  EXPECT_THAT(ResizeError({4}, {{.axis = 0, .scale = 1.0, .size = 4}}),
              HasSubstr("either"));
  for (double scale : {0.0, -1.0, kInfinity, std::nan(""), 1e300}) {
    EXPECT_THAT(ResizeError({4}, {{.axis = 0, .scale = scale, .size = {}}}),
                HasSubstr("out of range"));
  }
  for (int64_t size : {int64_t{-1}, kMost}) {
    EXPECT_THAT(ResizeError({4}, {Size(0, size)}),
                HasSubstr("must lie between"));
  }
  EXPECT_THAT(ResizeError({4}, {Size(0, kMaxResizeEntries + 1)}),
              HasSubstr("table"));
  EXPECT_THAT(ResizeError({int64_t{1} << 40}, {Size(0, 1)},
                          {.mode = ResizeMode::kLinear, .antialias = true}),
              HasSubstr("table"));
  EXPECT_THAT(
      ResizeError({2, int64_t{1} << 40}, {Size(0, 1), Size(1, kMaxElements)},
                  {.aspect = ResizeAspect::kNotSmaller}),
      HasSubstr("elements"));
  ResizeTarget target = Size(0, 2);
  target.roi_begin = kInfinity;
  EXPECT_THAT(ResizeError({4}, {target}), HasSubstr("region"));
  EXPECT_THAT(ResizeError({4}, {Size(0, 2)}, {.cubic_coefficient = kInfinity}),
              HasSubstr("coefficient"));
}

TEST(ResizeWordsTest, AreThoseOfOnnx) {
  EXPECT_EQ(*ParseResizeMode("linear"), ResizeMode::kLinear);
  EXPECT_EQ(*ParseResizeCoordinates("tf_crop_and_resize"),
            ResizeCoordinates::kTfCropAndResize);
  EXPECT_EQ(*ParseResizeRounding("round_prefer_ceil"),
            ResizeRounding::kRoundPreferCeil);
  EXPECT_EQ(*ParseResizeAspect("not_larger"), ResizeAspect::kNotLarger);
  EXPECT_THAT(std::string(ParseResizeMode("area").status().message()),
              HasSubstr("'area'"));
}

}  // namespace
}  // namespace gpupool::engine
