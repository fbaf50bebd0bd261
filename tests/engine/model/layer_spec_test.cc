#include "engine/model/layer_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_model.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace testing;  // NOLINT: the fixtures of this tree

absl::StatusOr<ModelGraph> Build(const std::string& text,
                                 bool training = false) {
  return BuildModel(ModelFromText(text), {.batch = 2, .training = training});
}

std::string Error(const std::string& text, bool training = false) {
  const auto model = Build(text, training);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(model.status().message());
}

TEST(LayerSpecTest, RandomSpecsBuildAndVerify) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (bool training : {false, true}) {
      auto model =
          BuildModel(RandomModel(seed), {.batch = 3, .training = training});
      ASSERT_TRUE(model.ok()) << "seed " << seed << ": " << model.status();
      ASSERT_TRUE(Verify(model->graph).ok()) << "seed " << seed;
    }
  }
}

TEST(LayerSpecTest, NamesAreGivenOrKindAndPosition) {
  auto model = Build(
      "input_shape: 4 layers { relu {} } layers { name: 'mine' tanh {} }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers[0].name, "relu_0");
  EXPECT_EQ(model->layers[1].name, "mine");
  EXPECT_EQ(model->layers[1].kind, "tanh");
}

TEST(LayerSpecTest, CountsParametersAndFlopsPerExample) {
  auto model = Build("input_shape: 4 layers { dense { units: 3 } }");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->layers[0].parameters, 15u);
  EXPECT_EQ(model->layers[0].flops, 2u * 4 * 3 + 3);
  EXPECT_EQ(model->parameters(), 15u);
  EXPECT_EQ(model->output_shape, (Shape{3}));
}

TEST(LayerSpecTest, DenseActsOnTheLastDimension) {
  auto model = Build("input_shape: [5, 4] layers { dense { units: 3 } }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->output_shape, (Shape{5, 3}));
  EXPECT_EQ(model->persistents[0].shape, (Shape{3, 4}));
  EXPECT_DOUBLE_EQ(model->persistents[0].initializer.bound, 0.5);
}

TEST(LayerSpecTest, BiasCanBeLeftOut) {
  auto model =
      Build("input_shape: 4 layers { dense { units: 3 bias: false } }");
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model->persistents, SizeIs(1));
}

TEST(LayerSpecTest, NumbersForBothAxesOrEach) {
  auto model = Build(
      "input_shape: [2, 9, 9] layers { conv2d { filters: 4 kernel: [3, 1] "
      "stride: 2 groups: 2 } } layers { max_pool { kernel: 2 stride: [1, 2] } "
      "}");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers[0].output_shape, (Shape{4, 4, 5}));
  EXPECT_EQ(model->layers[1].output_shape, (Shape{4, 3, 2}));
  EXPECT_EQ(model->persistents[0].shape, (Shape{4, 1, 3, 1}));
}

TEST(LayerSpecTest, DropoutIsNothingOutsideTraining) {
  const std::string text =
      "input_shape: 4 layers { dropout { probability: 0.5 } }";
  EXPECT_TRUE(Build(text)->graph.nodes().empty());
  EXPECT_NE(Build(text, true)->graph.FindValue("seed"), nullptr);
}

TEST(LayerSpecTest, EveryDropoutHasItsOwnStream) {
  auto model = Build(
      "input_shape: 4 layers { dropout { probability: 0.5 } } layers { "
      "dropout { probability: 0.5 } }",
      true);
  ASSERT_TRUE(model.ok());
  const auto nodes = model->graph.nodes();
  EXPECT_NE(nodes[0].get<DropoutAttributes>().stream,
            nodes[1].get<DropoutAttributes>().stream);
}

TEST(LayerSpecTest, ResidualAddsReachTheInputToo) {
  EXPECT_TRUE(
      Build(
          "input_shape: 4 layers { relu {} } layers { add { from: 'input' } }")
          .ok());
}

TEST(LayerSpecTest, LayerWithoutAKindIsRefused) {
  EXPECT_THAT(Error("input_shape: 4 layers { name: 'x' }"),
              HasSubstr("layer 'x': has no kind"));
}

TEST(LayerSpecTest, WeightsMayBeginWithTheNormalDistribution) {
  const auto model = Build(
      "input_shape: [4, 5, 5] layers { conv2d { filters: 6 kernel: [3, 2] "
      "groups: 2 } initial_weight: KAIMING_NORMAL } layers { flatten {} } "
      "layers { dense { units: 8 } initial_weight: KAIMING_NORMAL }");
  ASSERT_TRUE(model.ok()) << model.status();
  // conv2d's weight and bias, then dense's.
  const auto begin = [&](size_t i) {
    return model->persistents[i].initializer;
  };
  EXPECT_EQ(begin(0).kind, Initializer::Kind::kNormal);
  EXPECT_DOUBLE_EQ(begin(0).deviation, std::sqrt(2.0 / 36));
  EXPECT_EQ(begin(1).kind, Initializer::Kind::kUniform);
  EXPECT_DOUBLE_EQ(begin(1).bound, std::sqrt(1.0 / 12));
  EXPECT_DOUBLE_EQ(begin(2).deviation, 0.5);
  EXPECT_THAT(Error("input_shape: 4 layers { name: 'a' relu {} "
                    "initial_weight: KAIMING_NORMAL }"),
              HasSubstr("layer 'a': initial_weight is for dense and conv2d"));
}

TEST(LayerSpecTest, ShapeMismatchNamesTheLayerAndBothShapes) {
  EXPECT_THAT(
      Error("input_shape: 4 layers { name: 'a' dense { units: 3 } } layers { "
            "dense { units: 5 } } layers { add { from: 'a' } }"),
      AllOf(HasSubstr("layer 'add_2'"), HasSubstr("[5]"), HasSubstr("[3]"),
            HasSubstr("'a'")));
  EXPECT_THAT(
      Error("input_shape: 4 layers { conv2d { filters: 3 kernel: 3 } }"),
      AllOf(HasSubstr("layer 'conv2d_0'"), HasSubstr("[4]"),
            HasSubstr("image")));
  EXPECT_THAT(
      Error(
          "input_shape: [1, 4, 4] layers { conv2d { filters: 3 kernel: 9 } }"),
      AllOf(HasSubstr("layer 'conv2d_0'"), HasSubstr("[1, 4, 4]"),
            HasSubstr("covers 9 cells")));
}

TEST(LayerSpecTest, AddOfAnUnknownOrLaterLayerIsRefused) {
  EXPECT_THAT(Error("input_shape: 4 layers { add { from: 'ghost' } }"),
              HasSubstr("'ghost'"));
  EXPECT_THAT(Error("input_shape: 4 layers { add { from: 'late' } } layers { "
                    "name: 'late' relu {} }"),
              HasSubstr("'late'"));
}

TEST(LayerSpecTest, NamesAreUniqueAndPlain) {
  EXPECT_THAT(Error("input_shape: 4 layers { name: 'a' relu {} } layers { "
                    "name: 'a' tanh {} }"),
              HasSubstr("two layers are named 'a'"));
  EXPECT_THAT(Error("input_shape: 4 layers { name: 'a/b' relu {} }"),
              HasSubstr("'a/b'"));
  EXPECT_THAT(Error("input_shape: 4 layers { name: 'input' relu {} }"),
              HasSubstr("'input'"));
}

TEST(LayerSpecTest, InputShapeIsChecked) {
  EXPECT_THAT(Error("layers { relu {} }"), HasSubstr("input_shape is empty"));
  EXPECT_THAT(Error("input_shape: [4, 0] layers { relu {} }"),
              HasSubstr("[4, 0]"));
  EXPECT_THAT(Error("input_shape: [65536, 65536] layers { relu {} }"),
              HasSubstr("input_shape"));
  EXPECT_THAT(Error("input_shape: 4"), HasSubstr("0 layers"));
}

TEST(LayerSpecTest, HugeLayersAreRefusedNotWrapped) {
  EXPECT_THAT(Error("input_shape: 1048576 layers { dense { units: "
                    "9223372036854775807 } }"),
              HasSubstr("too many elements"));
  EXPECT_THAT(Error("input_shape: [1, 4, 4] layers { conv2d { filters: 1 "
                    "kernel: 9223372036854775807 } }"),
              HasSubstr("layer 'conv2d_0'"));
  EXPECT_THAT(Error("input_shape: [1, 4, 4] layers { max_pool { kernel: 2 "
                    "padding: 9223372036854775807 } }"),
              HasSubstr("layer 'max_pool_0'"));
}

TEST(LayerSpecTest, BadNumbersNameTheFieldAndTheValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"dense {}", "units is 0"},
      {"dense { units: -3 }", "units is -3"},
      {"conv2d { filters: 2 }", "kernel has 0 numbers"},
      {"conv2d { filters: 2 kernel: [1, 2, 3] }", "kernel has 3 numbers"},
      {"conv2d { filters: 0 kernel: 1 }", "filters is 0"},
      {"conv2d { filters: 3 kernel: 1 groups: 2 }", "groups 2"},
      {"conv2d { filters: 2 kernel: 1 stride: -1 }", "stride -1"},
      {"max_pool { kernel: 2 padding: 2 }", "padding 2 must be less"},
      {"batch_norm { epsilon: 0 }", "epsilon 0"},
      {"layer_norm { epsilon: -1 }", "epsilon -1"},
      {"dropout { probability: 1 }", "probability 1"},
      {"dropout { probability: nan }", "probability nan"},
  };
  for (const auto& [layer, message] : cases) {
    EXPECT_THAT(
        Error(std::string("input_shape: [2, 4, 4] layers { ") + layer + " }"),
        AllOf(HasSubstr("_0'"), HasSubstr(message)))
        << layer;
  }
}

TEST(LayerSpecTest, BadMomentumIsRefusedInTraining) {
  EXPECT_THAT(
      Error("input_shape: 4 layers { batch_norm { momentum: 2 } }", true),
      HasSubstr("momentum 2"));
}

TEST(LayerSpecTest, BatchMustBePositive) {
  const auto spec = ModelFromText("input_shape: 4 layers { relu {} }");
  EXPECT_THAT(BuildModel(spec, {.batch = 0}).status().message(),
              HasSubstr("batch size 0"));
}

}  // namespace
}  // namespace gpupool::engine
