#include "engine/model/layers/sequence_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/layer_spec.h"
#include "engine/model/losses.h"
#include "tests/engine/autodiff/gradient_fixture.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree
using reference::Numbers;

absl::StatusOr<ModelGraph> BuildLayers(const std::string& text,
                                       bool training = false) {
  return BuildModel(ModelFromText(text), {.batch = 2, .training = training});
}

std::string LayersError(const std::string& text) {
  const auto model = BuildLayers(text);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(model.status().message());
}

// Returns the output of the layers for a batch of 2.
Numbers Answer(const std::string& text, const Numbers& input,
               reference::NamedNumbers state = {}) {
  auto model = BuildLayers(text);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  model->graph.AddOutput("y", model->output);
  auto outputs = reference::Run(model->graph, {{"input", input}}, state);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)["y"] : Numbers();
}

TEST(SequenceKindsTest, AnEmbeddingTakesRowsOfItsTable) {
  EXPECT_EQ(Answer("input_shape: 2 layers { name: 'e' embedding { entries: 3 "
                   "width: 2 } }",
                   {2, 0, 1, -1}, {{"e.weight", {1, 2, 3, 4, 5, 6}}}),
            (Numbers{5, 6, 1, 2, 3, 4, 5, 6}));
}

TEST(SequenceKindsTest, AnEmbeddingMakesTheInputWhole) {
  const auto model = BuildLayers(
      "input_shape: [4, 3] layers { embedding { entries: 9 width: "
      "5 } }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[0].dtype, DType::kInt64);
  EXPECT_EQ(model->output_shape, (Shape{4, 3, 5}));
  EXPECT_EQ(model->parameters(), 45u);
  EXPECT_EQ(model->layers[0].kind, "embedding");
}

TEST(SequenceKindsTest, PixelsBecomeTokens) {
  // Two images of 2 channels, 1 x 3 pixels.
  EXPECT_EQ(Answer("input_shape: [2, 1, 3] layers { image_tokens {} }",
                   {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}),
            (Numbers{0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32}));
}

TEST(SequenceKindsTest, AClassTokenComesFirst) {
  EXPECT_EQ(Answer("input_shape: [1, 2] layers { name: 'c' class_token {} }",
                   {1, 2, 3, 4}, {{"c.weight", {8, 9}}}),
            (Numbers{8, 9, 1, 2, 8, 9, 3, 4}));
}

TEST(SequenceKindsTest, PositionsAddTheFirstRowsOfTheirTable) {
  EXPECT_EQ(Answer("input_shape: [2, 1] layers { name: 'p' positions { length: "
                   "3 } }",
                   {1, 2, 3, 4}, {{"p.weight", {10, 20, 30}}}),
            (Numbers{11, 22, 13, 24}));
}

TEST(SequenceKindsTest, TokensArePickedOrAveraged) {
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::string shape = "input_shape: [3, 2] ";
  EXPECT_EQ(Answer(shape + "layers { pick_token {} }", x),
            (Numbers{1, 2, 7, 8}));
  EXPECT_EQ(Answer(shape + "layers { pick_token { index: -1 } }", x),
            (Numbers{5, 6, 11, 12}));
  EXPECT_EQ(Answer(shape + "layers { mean_tokens {} }", x),
            (Numbers{3, 4, 9, 10}));
}

struct AttentionSizes {
  int tokens, width, heads;
};

// Returns softmax(q k^T / sqrt(depth)) v for one sequence of rows of 3 * width
// numbers.
Numbers Attend(const Numbers& x, const AttentionSizes& sizes, bool causal) {
  const auto [tokens, width, heads] = sizes;
  const int depth = width / heads;
  Numbers y(static_cast<size_t>(tokens * width));
  const auto at = [&x, row = width](int token, int part, int column) {
    return x[static_cast<size_t>(token * 3 * row + part * row + column)];
  };
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < tokens; ++i) {
      const int seen = causal ? i + 1 : tokens;
      std::vector<double> shares;
      double sum = 0;
      for (int j = 0; j < seen; ++j) {
        double score = 0;
        for (int d = 0; d < depth; ++d) {
          score += at(i, 0, head * depth + d) * at(j, 1, head * depth + d);
        }
        shares.push_back(std::exp(score / std::sqrt(depth)));
        sum += shares.back();
      }
      for (int d = 0; d < depth; ++d) {
        double& out = y[static_cast<size_t>(i * width + head * depth + d)];
        for (int j = 0; j < seen; ++j) {
          out +=
              shares[static_cast<size_t>(j)] / sum * at(j, 2, head * depth + d);
        }
      }
    }
  }
  return y;
}

TEST(SequenceKindsTest, AttentionFollowsItsFormula) {
  const AttentionSizes sizes{.tokens = 5, .width = 4, .heads = 2};
  const Numbers x = RandomNumbers(2 * 5 * 12, 3, -2, 2);
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  for (const bool causal : {false, true}) {
    Numbers expected = Attend({x.begin(), middle}, sizes, causal);
    const Numbers second = Attend({middle, x.end()}, sizes, causal);
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_LT(Distance(Answer(std::string("input_shape: [5, 12] layers { "
                                          "attention { heads: 2 causal: ") +
                                  (causal ? "true" : "false") + " } }",
                              x),
                       expected),
              1e-12)
        << causal;
  }
}

TEST(SequenceKindsTest, ADenseLayerTakesTheTableOfAnEmbedding) {
  const auto model = BuildLayers(
      "input_shape: 3 layers { name: 'e' embedding { entries: 7 width: 4 } } "
      "layers { dense { tied_to: 'e' } } layers { dense { units: 4 } } "
      "layers { name: 'd' dense { tied_to: 'e' bias: true } }");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers[1].output_shape, (Shape{3, 7}));
  EXPECT_EQ(model->layers[1].parameters, 0u);
  EXPECT_EQ(model->layers[3].parameters, 7u);
  EXPECT_EQ(model->parameters(), 28u + 4 * 8 + 7);
  EXPECT_EQ(std::count_if(model->persistents.begin(), model->persistents.end(),
                          [](const PersistentSpec& spec) {
                            return spec.name == "e.weight";
                          }),
            1);
}

TEST(SequenceKindsTest, GradientsMatchDifferences) {
  const char* const models[] = {
      R"pb(
        input_shape: [ 2, 4, 2 ]
        layers { conv2d { filters: 4 kernel: 2 stride: 2 } }
        layers { image_tokens {} }
        layers { class_token {} }
        layers {
          name: "positions"
          positions {}
        }
        layers { layer_norm {} }
        layers { dense { units: 12 } }
        layers { attention { heads: 2 } }
        layers { dense { units: 4 } }
        layers { add { from: "positions" } }
        layers {
          name: "all"
          gelu {}
        }
        layers {
          name: "first"
          pick_token {}
        }
        layers {
          mean_tokens {}
          input: "all"
        }
        layers { add { from: "first" } }
        layers { dense { units: 3 } }
      )pb",
      R"pb(
        input_shape: [ 4 ]
        layers {
          name: "table"
          embedding { entries: 3 width: 4 }
        }
        layers { positions { length: 6 } }
        layers { dense { units: 12 } }
        layers { attention { heads: 2 causal: true } }
        layers { layer_norm {} }
        layers { dense { tied_to: "table" } }
      )pb"};
  for (const char* text : models) {
    auto model = BuildLayers(text, true);
    ASSERT_TRUE(model.ok()) << model.status();
    GraphBuilder builder(&model->graph);
    const auto loss =
        AddLoss(TrainingFromText("cross_entropy {}"), model->output, builder);
    ASSERT_TRUE(loss.ok()) << loss.status();
    model->graph.AddOutput("loss", *loss);
    for (const uint64_t seed : {1, 2}) {
      ExpectGradientsMatchDifferences(model->graph, seed);
    }
  }
}

TEST(SequenceKindsTest, WrongShapesAndNumbersAreRefusedByName) {
  const std::string tokens = "input_shape: [4, 6] layers { name: 'a' ";
  const std::pair<const char*, const char*> cases[] = {
      {"attention {}", "heads is 0"},
      {"attention { heads: -2 }", "heads is -2"},
      {"attention { heads: 4 }", "heads 4 must divide the width 2"},
      {"pick_token { index: 4 }", "index is 4, but its input has 4 tokens"},
      {"pick_token { index: -5 }", "write -4 .. 3"},
      {"positions { length: 3 }", "length is 3, but its input has 4 tokens"},
      {"positions { length: -1 }", "length is -1"},
      {"image_tokens {}", "needs an image"},
      {"embedding { entries: 2 width: 2 } input: 'b'", "'b'"},
      {"dense { tied_to: 'a' }", "the name of no earlier embedding"},
  };
  for (const auto& [layer, message] : cases) {
    EXPECT_THAT(LayersError(tokens + layer + " }"),
                AllOf(HasSubstr("layer 'a'"), HasSubstr(message)))
        << layer;
  }
  for (const char* kind : {"class_token {}", "positions {}", "mean_tokens {}",
                           "pick_token {}", "attention { heads: 1 }"}) {
    EXPECT_THAT(
        LayersError(std::string("input_shape: 4 layers { ") + kind + " }"),
        HasSubstr("needs tokens [tokens, width], but its input is [4]"));
  }
  EXPECT_THAT(LayersError("input_shape: [4, 8] layers { attention { heads: 1 } "
                          "}"),
              HasSubstr("side by side, [tokens, 3 * width], but its input is "
                        "[4, 8]"));
}

TEST(SequenceKindsTest, WholeNumbersAreForEmbeddingsAlone) {
  const std::string embedding =
      "input_shape: 4 layers { name: 'e' embedding { entries: 3 width: 4 } } ";
  EXPECT_THAT(LayersError("input_shape: 4 layers { embedding { width: 2 } }"),
              HasSubstr("entries is 0"));
  EXPECT_THAT(LayersError("input_shape: 4 layers { embedding { entries: 2 } }"),
              HasSubstr("width is 0"));
  EXPECT_THAT(LayersError("input_shape: 4 layers { embedding { entries: "
                          "9223372036854775807 width: 4 } }"),
              HasSubstr("layer 'embedding_0'"));
  EXPECT_THAT(LayersError(embedding + "layers { embedding { entries: 3 width: "
                                      "4 } }"),
              HasSubstr("reads whole numbers, which only the model's input"));
  EXPECT_THAT(
      LayersError(embedding + "layers { relu {} input: 'input' } "
                              "layers { add { from: 'e' } }"),
      AllOf(HasSubstr("layer 'relu_1'"), HasSubstr("which has whole numbers")));
  EXPECT_THAT(LayersError(embedding + "layers { add { from: 'input' } }"),
              HasSubstr("which has whole numbers"));
  EXPECT_THAT(
      LayersError(embedding + "layers { dense { tied_to: 'e' units: 3 } }"),
      HasSubstr("units and tied_to are both set"));
  EXPECT_THAT(
      LayersError(embedding + "layers { dense { units: 5 } } layers { dense { "
                              "tied_to: 'e' } }"),
      HasSubstr("the vectors of 'e' have 4 numbers, but those of its "
                "input have 5"));
  const auto scaled =
      BuildModel(ModelFromText(embedding), {.input_scaling = true});
  EXPECT_THAT(scaled.status().message(), HasSubstr("data.scaling"));
}

}  // namespace
}  // namespace gpupool::engine
