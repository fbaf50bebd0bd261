#include "engine/train/fed_inputs.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "engine/data/random_table.h"
#include "engine/graph/builder.h"
#include "gpupool/v1/dataset.pb.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Little;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns 100 rows of [4, 4] with labels 0 to 9.
DataFacts Features() { return {100, {4, 4}, {{}, true, 0, 9}}; }

// Returns tokens and a mask of 8 numbers each, and two targets.
DataFacts Named() {
  DataFacts facts = {.rows = 100};
  facts.inputs = {{"ids", v1::INT64, {8}}, {"mask", v1::UINT8, {8}}};
  facts.targets = {{"label", v1::UINT8, {}, {{}, true, 0, 3}},
                   {"score", v1::FLOAT32, {2}, {{2}, false, -1, 1}}};
  return facts;
}

ModelPort Port(const std::string& name, DType dtype, const Shape& shape) {
  return {.name = name, .dtype = dtype, .shape = shape};
}

std::string FedErrorOf(const std::vector<ModelPort>& inputs,
                       const DataFacts& facts) {
  auto fed = FeedModel(inputs, facts);
  EXPECT_EQ(fed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(fed.status().message());
}

TEST(FedInputsTest, FeaturesMustBeAsManyAsTheModelTakes) {
  ModelPort input = Port("x", DType::kFloat32, {30, 16});
  auto fed = FeedModel({input}, Features());
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_EQ((*fed)[0].name, "x");
  EXPECT_FALSE((*fed)[0].target);
  input.shape = {30, 15};
  EXPECT_EQ(FedErrorOf({input}, Features()),
            "the model's input 'x' [15] takes 15 numbers, but a row of the "
            "dataset has 16 (shape [4,4]); make them agree");
}

TEST(FedInputsTest, InputsAreNumbersWithABatch) {
  ModelPort input = Port("x", DType::kFloat32, {30, 16});
  input.batched = false;
  EXPECT_THAT(FedErrorOf({input}, Features()),
              HasSubstr("'x' has no batch dimension in front"));
  EXPECT_THAT(FedErrorOf({Port("x", DType::kBool, {30, 16})}, Features()),
              HasSubstr("'x' is bool"));
  EXPECT_TRUE(FeedModel({Port("x", DType::kInt64, {30, 16})}, Features()).ok());
  EXPECT_THAT(FedErrorOf({}, Features()), HasSubstr("has no input"));
}

TEST(FedInputsTest, SeveralInputsNeedNamedArrays) {
  EXPECT_EQ(FedErrorOf({Port("ids", DType::kInt64, {30, 8}),
                        Port("mask", DType::kFloat32, {30, 8})},
                       Features()),
            "the model has 2 inputs (ids, mask), but the dataset has one array "
            "of features; upload an NPZ archive with an array for each input "
            "(gpupool datasets upload --input ids=ARRAY --input mask=ARRAY)");
}

TEST(FedInputsTest, NamedArraysGoToTheInputsOfTheirNames) {
  // In the order of the model, not of the dataset.
  auto fed = FeedModel({Port("mask", DType::kFloat32, {30, 8}),
                        Port("ids", DType::kInt64, {30, 8})},
                       Named());
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->size(), 2u);
  EXPECT_EQ((*fed)[0].name, "mask");
  EXPECT_EQ((*fed)[0].column, 1u);
  EXPECT_EQ((*fed)[1].column, 0u);
}

TEST(FedInputsTest, NamesWhatANamedInputLacks) {
  EXPECT_EQ(FedErrorOf({Port("types", DType::kInt64, {30, 8})}, Named()),
            "the model's input 'types' is not in the dataset, which has 'ids', "
            "'mask'; upload it with gpupool datasets upload --input "
            "types=ARRAY");
  EXPECT_THAT(FedErrorOf({Port("ids", DType::kInt64, {30, 9})}, Named()),
              HasSubstr("'ids' [9] takes 9 numbers"));
  DataFacts floats = Named();
  floats.inputs[0].type = v1::FLOAT32;
  EXPECT_THAT(FedErrorOf({Port("ids", DType::kInt64, {30, 8})}, floats),
              HasSubstr("'ids' is int64, but the dataset's array is of "
                        "floating-point numbers"));
}

TEST(FedInputsTest, BeforeTheDataIsThereEveryInputIsTaken) {
  DataFacts assumed;
  assumed.assumed = true;
  EXPECT_TRUE(FeedModel({Port("ids", DType::kInt64, {30, 8}),
                         Port("mask", DType::kInt64, {30, 8})},
                        assumed)
                  .ok());
}

TEST(FedInputsTest, FindsTargetsByName) {
  DataFacts facts = Named();
  EXPECT_EQ(*FindTarget("training.losses[0].target", "score", facts), 1u);
  EXPECT_EQ(facts.labels.minimum, -1);
  EXPECT_EQ(
      FindTarget("training.losses[0].target", "rank", facts).status().message(),
      "training.losses[0].target: the dataset has no target 'rank'; it "
      "has 'label', 'score'");
  EXPECT_THAT(FindTarget("training", "", facts).status().message(),
              HasSubstr("the dataset has the targets 'label', 'score'; list "
                        "the losses in training.losses"));
  facts.targets.pop_back();
  EXPECT_EQ(*FindTarget("training", "", facts), 0u);
  EXPECT_EQ(facts.labels.maximum, 3);
  DataFacts unnamed = Features();
  EXPECT_EQ(*FindTarget("training", "", unnamed), 0u);
  EXPECT_THAT(FindTarget("training", "y", unnamed).status().message(),
              HasSubstr("has no target 'y', only labels without a name"));
}

TEST(FedInputsTest, NumbersMustFitAnInt32Input) {
  Graph graph;
  GraphBuilder builder(&graph);
  ASSERT_TRUE(builder.Input("ids", {DType::kInt32, {5, 2}}).ok());
  Table table{.rows = 2};
  table.inputs.push_back(ColumnOfBytes(
      ElementType::kInt64, {2},
      Little(1, 8) + Little(2, 8) + Little(3, 8) + Little(1ull << 31, 8)));
  const std::vector<FedInput> fed = {{.name = "ids"}};
  EXPECT_EQ(CheckFedNumbers(table, fed, graph).message(),
            "row 1 of the dataset, counted from 0, has 2147483648 for the "
            "model's input 'ids', which is int32; mend the row or make the "
            "input int64");
  table.inputs[0].rows = 1;
  EXPECT_TRUE(CheckFedNumbers(table, fed, graph).ok());
}

// Returns the text of the check of one column that feeds the input 'ids' of
// this type.
std::string NumberErrorOf(DType dtype, Column column, bool target = false) {
  Graph graph;
  GraphBuilder builder(&graph);
  EXPECT_TRUE(builder.Input("ids", {dtype, {5, 2}}).ok());
  Table table{.rows = column.rows};
  (target ? table.targets : table.inputs).push_back(std::move(column));
  const std::vector<FedInput> fed = {{.name = "ids", .target = target}};
  return std::string(CheckFedNumbers(table, fed, graph).message());
}

TEST(FedInputsTest, FloatsForAnIntegerInputMustBeWhole) {
  EXPECT_EQ(NumberErrorOf(DType::kInt64, ColumnOf({2}, {1, 2, 3, 4.5f})),
            "row 1 of the dataset, counted from 0, has 4.5 as number 1 for the "
            "model's input 'ids', which is int64 and takes whole numbers from "
            "-9007199254740992 to 9007199254740992; mend the row or make the "
            "input float32");
  EXPECT_THAT(NumberErrorOf(DType::kInt32, ColumnOf({2}, {-0.25f, 2})),
              HasSubstr("row 0 of the dataset, counted from 0, has -0.25 as "
                        "number 0"));
  EXPECT_EQ(NumberErrorOf(DType::kInt64, ColumnOf({2}, {1, -2, 0, 1e15f})), "");
  EXPECT_EQ(NumberErrorOf(DType::kInt32, ColumnOf({2}, {1, -2, 0, 4e4f})), "");
  EXPECT_EQ(NumberErrorOf(DType::kFloat32, ColumnOf({2}, {0.5f, 2})), "");
  EXPECT_EQ(NumberErrorOf(DType::kInt32, ColumnOf({2}, {0.5f, 2}), true), "")
      << "labels have their own check";
}

TEST(FedInputsTest, FloatsForAnIntegerInputMustFitIt) {
  // 2^31 is the first whole float above the limit of int32.
  EXPECT_THAT(NumberErrorOf(DType::kInt32, ColumnOf({2}, {0, 2147483648.0f})),
              HasSubstr("has 2.14748365e+09 as number 1"));
  EXPECT_EQ(NumberErrorOf(DType::kInt64, ColumnOf({2}, {0, 2147483648.0f})),
            "");
  EXPECT_THAT(NumberErrorOf(DType::kInt64, ColumnOf({2}, {0, 1e30f})),
              HasSubstr("has 1.00000002e+30 as number 1"));
  EXPECT_THAT(NumberErrorOf(DType::kInt64, ColumnOf({2}, {0, NAN})),
              HasSubstr("has nan as number 1"));
}

TEST(FedInputsTest, ErrorsOfWindowsCountWindows) {
  // Windows of three numbers, of which only the last one has a wrong number.
  Column integers = ColumnOfBytes(ElementType::kInt64, {},
                                  Little(1, 8) + Little(2, 8) + Little(3, 8) +
                                      Little(4, 8) + Little(1ull << 31, 8));
  Column floats = ColumnOf({}, {1, 2, 3, 4, 5.5f});
  for (Column* column : {&integers, &floats}) {
    column->shape = {3};
    column->width = 3;
    column->step = 1;
    column->rows = 3;
  }
  EXPECT_THAT(NumberErrorOf(DType::kInt32, integers),
              HasSubstr("window 2 of the dataset, counted from 0, has "
                        "2147483648 for"));
  EXPECT_THAT(NumberErrorOf(DType::kInt64, floats),
              HasSubstr("window 2 of the dataset, counted from 0, has 5.5 as "
                        "number 2"));
}

TEST(FedInputsTest, RandomRowsAreNotChecked) {
  Graph graph;
  GraphBuilder builder(&graph);
  ASSERT_TRUE(builder.Input("ids", {DType::kInt64, {5, 2}}).ok());
  v1::Dataset dataset;
  dataset.set_rows(4);
  dataset.add_feature_shape(2);
  dataset.set_feature_type(v1::FLOAT32);
  const auto table = RandomTable(dataset, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(CheckFedNumbers(*table, {{.name = "ids"}}, graph).ok());
}

TEST(FedInputsTest, DoublesAreCheckedWithAllTheirDigits) {
  // 16777216.5 is whole when it is rounded to a float32.
  const Column column =
      ColumnOfBytes(ElementType::kFloat64, {2},
                    Little(std::bit_cast<uint64_t>(3.0), 8) +
                        Little(std::bit_cast<uint64_t>(16777216.5), 8));
  EXPECT_THAT(NumberErrorOf(DType::kInt64, column),
              HasSubstr("has 16777216.5 as number 1"));
}

v1::DataSpec TransformsOf(const std::string& text) {
  v1::DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data));
  return data;
}

std::string TransformErrorOf(const std::vector<ModelPort>& inputs,
                             const DataFacts& facts, const std::string& text) {
  auto fed = FeedTransformed(inputs, TransformsOf(text), facts);
  EXPECT_EQ(fed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(fed.status().message());
}

TEST(FedInputsTest, TransformedRowsMustFitTheModel) {
  const ModelPort input = Port("x", DType::kFloat32, {30, 1, 2, 3});
  const std::string crop = "transforms { random_crop { size: [2, 3] } }";
  auto fed = FeedTransformed({input}, TransformsOf(crop), Features());
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_EQ((*fed)[0].transforms.before(), (ImageShape{1, 4, 4}));
  EXPECT_EQ((*fed)[0].transforms.after(), (ImageShape{1, 2, 3}));
  EXPECT_EQ(TransformErrorOf({input}, Features(),
                             "transforms { center_crop { size: 2 } }"),
            "after data.transforms: the model's input 'x' [1, 2, 3] takes 6 "
            "numbers, but a row of the dataset has 4 (shape [1,2,2]); make "
            "them agree");
}

TEST(FedInputsTest, RowsOfATableAreImagesOfTheModelsShape) {
  DataFacts facts = Features();
  facts.feature_shape = {16};
  const std::string flip = "transforms { random_horizontal_flip {} }";
  auto fed = FeedTransformed({Port("x", DType::kFloat32, {30, 1, 2, 8})},
                             TransformsOf(flip), facts);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_EQ((*fed)[0].transforms.before(), (ImageShape{1, 2, 8}));
  EXPECT_EQ(
      TransformErrorOf({Port("x", DType::kFloat32, {30, 16})}, facts, flip),
      "data.transforms are for images, but a row for the model's input 'x' has "
      "the shape [16]; store rows as [channels, height, width], or leave the "
      "transforms out");
}

TEST(FedInputsTest, TransformsNameTheirInput) {
  const std::vector<ModelPort> two = {Port("mask", DType::kFloat32, {30, 8}),
                                      Port("ids", DType::kInt64, {30, 8})};
  EXPECT_EQ(TransformErrorOf(two, Named(), "transforms { to_float {} }"),
            "data.transforms[0].to_float: the model has the inputs 'mask', "
            "'ids'; set input to one of them");
  EXPECT_EQ(TransformErrorOf(two, Named(),
                             "transforms { input: 'pixels' to_float {} }"),
            "data.transforms[0].to_float: the model has no input 'pixels'; it "
            "has 'mask', 'ids'");
  EXPECT_EQ(
      TransformErrorOf(two, Named(), "transforms { input: 'ids' to_float {} }"),
      "data.transforms[0].to_float: the model's input 'ids' is int64; "
      "transforms are for float32");
  DataFacts assumed;
  assumed.assumed = true;
  EXPECT_TRUE(FeedTransformed(
                  two, TransformsOf("transforms { input: 'mask' to_float {} }"),
                  assumed)
                  .ok());
}

TEST(FedInputsTest, MasksAreForIntegers) {
  const std::vector<ModelPort> two = {Port("mask", DType::kFloat32, {30, 8}),
                                      Port("ids", DType::kInt32, {30, 8})};
  const auto mask = [](const std::string& input, int64_t token) {
    return "transforms { input: '" + input +
           "' random_mask { mask_token: " + std::to_string(token) +
           " vocabulary: 9 } }";
  };
  EXPECT_EQ(TransformErrorOf(two, Named(), mask("mask", 3)),
            "data.transforms[0].random_mask: the model's input 'mask' is "
            "float32; tokens are hidden in int32 and int64 inputs");
  EXPECT_EQ(TransformErrorOf(two, Named(), mask("ids", int64_t{1} << 31)),
            "data.transforms[0].random_mask: mask_token is 2147483648, but the "
            "model's input 'ids' is int32; lower it");
  auto fed = FeedTransformed(two, TransformsOf(mask("ids", 3)), Named());
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_TRUE((*fed)[1].transforms.empty());
}

// Fills 'ids' and 'labels' with rows of 64 tokens that are their own labels.
TEST(FedInputsTest, LabelsOfHiddenTokensStay) {
  constexpr size_t kWidth = 64;
  Graph graph;
  GraphBuilder builder(&graph);
  ASSERT_TRUE(builder.Input("ids", {DType::kInt32, {3, kWidth}}).ok());
  ASSERT_TRUE(builder.Input("labels", {DType::kInt64, {3, kWidth}}).ok());
  std::vector<float> numbers(3 * kWidth, 7);
  Table table{.rows = 3};
  table.inputs.push_back(ColumnOf({kWidth}, numbers));
  table.targets.push_back(ColumnOf({kWidth}, numbers));
  v1::Transform::RandomMask mask;
  mask.set_p(0.5);
  mask.set_mask_token(1);
  mask.set_mask_share(1);
  mask.set_random_share(0);
  const FedMask own = {.mask = TokenMask(mask, 0), .seed = 5, .ignored = -100};
  const std::vector<FedInput> fed = {
      {.name = "ids", .mask = own},
      {.name = "labels", .target = true, .mask = own}};
  std::vector<int32_t> ids(3 * kWidth, -1);
  std::vector<int64_t> labels(3 * kWidth, -1);
  const auto fill = [&](std::optional<TrainedEpoch> epoch) {
    const std::vector<uint32_t> rows = {2, 0};
    const absl::Status filled = FillInputs(
        {table, fed, rows, epoch}, graph, [&](absl::string_view name) {
          return name == "ids"
                     ? absl::MakeSpan(reinterpret_cast<std::byte*>(ids.data()),
                                      ids.size() * sizeof(int32_t))
                     : absl::MakeSpan(
                           reinterpret_cast<std::byte*>(labels.data()),
                           labels.size() * sizeof(int64_t));
        });
    EXPECT_TRUE(filled.ok()) << filled;
    return ids;
  };
  for (const auto& epoch :
       {std::optional(TrainedEpoch{5, 0}), std::optional<TrainedEpoch>()}) {
    fill(epoch);
    int hidden = 0;
    for (size_t i = 0; i < 2 * kWidth; ++i) {
      EXPECT_EQ(labels[i], ids[i] == 1 ? 7 : -100);
      EXPECT_EQ(ids[i], labels[i] == 7 ? 1 : 7);
      hidden += ids[i] == 1;
    }
    EXPECT_NEAR(hidden, 64, 40);
    EXPECT_EQ(ids[2 * kWidth], 0) << "the rest of the batch";
  }
  EXPECT_EQ(fill(std::nullopt), fill(std::nullopt));
  EXPECT_NE(fill(TrainedEpoch{5, 0}), fill(TrainedEpoch{5, 1}));
  EXPECT_NE(fill(TrainedEpoch{5, 0}), fill(std::nullopt));
}

TEST(FedInputsTest, LabelsOfPixelsForbidToMoveThem) {
  const ModelPort input = Port("x", DType::kFloat32, {30, 1, 4, 4});
  DataFacts facts = Features();
  facts.labels.shape = {4, 4};
  EXPECT_EQ(TransformErrorOf({input}, facts,
                             "transforms { to_float {} } "
                             "transforms { random_vertical_flip {} }"),
            "data.transforms[1].random_vertical_flip moves pixels, but the "
            "dataset has labels for each of 4 x 4 pixels, which stay; leave it "
            "out");
  EXPECT_TRUE(FeedTransformed({input},
                              TransformsOf("transforms { to_float {} "
                                           "}"),
                              facts)
                  .ok());
}

TEST(FedInputsTest, RowsAreScaledOnce) {
  const ModelPort input = Port("x", DType::kFloat32, {30, 1, 4, 4});
  EXPECT_EQ(TransformErrorOf({input}, Features(),
                             "scaling { multiply: 2 } transforms { to_float {} "
                             "}"),
            "data.transforms[0].to_float and data.scaling both scale the rows; "
            "leave one out");
  EXPECT_TRUE(FeedTransformed({input},
                              TransformsOf("scaling { standardize {} } "
                                           "transforms { "
                                           "random_horizontal_flip {} }"),
                              Features())
                  .ok());
  EXPECT_THAT(
      TransformErrorOf({Port("x", DType::kFloat32, {30, 1, 2, 2})}, Features(),
                       "scaling { standardize {} } "
                       "transforms { center_crop { size: 2 } }"),
      HasSubstr("make rows of 4 numbers of 16, for which data.scaling has no "
                "statistics"));
}

TEST(FedInputsTest, FillsInputsWithTransformedRows) {
  Graph graph;
  GraphBuilder builder(&graph);
  ASSERT_TRUE(builder.Input("x", {DType::kFloat32, {3, 1, 1, 2}}).ok());
  Table table{.rows = 3};
  table.inputs.push_back(ColumnOfBytes(ElementType::kUint8, {1, 1, 2},
                                       "\x01\x02\x03\x04\x05\x06"));
  auto fed = FeedTransformed(
      {Port("x", DType::kFloat32, {3, 1, 1, 2})},
      TransformsOf("transforms { to_float { factor: 10 } } "
                   "transforms { random_horizontal_flip { p: 1 } }"),
      {.rows = 3, .feature_shape = {1, 1, 2}, .feature_type = v1::UINT8});
  ASSERT_TRUE(fed.ok()) << fed.status();
  std::vector<float> numbers(6, -1);
  const auto fill = [&](std::optional<TrainedEpoch> epoch) {
    const std::vector<uint32_t> rows = {2, 0};
    return FillInputs(
        {table, *fed, rows, epoch}, graph, [&](absl::string_view) {
          return absl::MakeSpan(reinterpret_cast<std::byte*>(numbers.data()),
                                numbers.size() * sizeof(float));
        });
  };
  ASSERT_TRUE(fill(TrainedEpoch{1, 0}).ok());
  EXPECT_THAT(numbers, ElementsAre(60, 50, 20, 10, 0, 0));
  ASSERT_TRUE(fill(std::nullopt).ok());
  EXPECT_THAT(numbers, ElementsAre(50, 60, 10, 20, 0, 0)) << "evaluated rows";
}

}  // namespace
}  // namespace gpupool::engine
