#include "engine/import/onnx/file/buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/import/onnx/half_model.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

using Dims = std::vector<int64_t>;
// Returns the number of a cell.
using Fill = std::function<double(int64_t row, int64_t column)>;

struct BufferCase {
  std::string what;
  std::string name;  // of the initializer in question
  Dims dims;
  Fill fill;           // empty: random numbers
  std::string nodes;   // read "t", which stands for the name
  std::string reason;  // part of it; empty: a parameter
};

void PrintTo(const BufferCase& one, std::ostream* out) { *out << one.what; }

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Sinusoid(int64_t row, int64_t column) {
  const double angle = static_cast<double>(row) /
                       std::pow(10000.0, static_cast<double>(column / 2) / 4);
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

double Cosine(int64_t row, int64_t column) {
  return std::cos(static_cast<double>(row) /
                  std::pow(10000.0, static_cast<double>(column % 4) / 4));
}

double Causal(int64_t row, int64_t column) { return column <= row ? 1 : 0; }

Fill Number(double x) {
  return [x](int64_t, int64_t) { return x; };
}

Fill Hidden(double low) {
  return [low](int64_t row, int64_t column) { return column <= row ? 0 : low; };
}

std::vector<BufferCase> ByName() {
  return {
      {"InverseFrequencies",
       "layers.0.attn.rotary_emb.inv_freq",
       {8},
       {},
       "y = Mul(x, t)",
       "rotary frequencies"},
      {"RotaryTable",
       "rotary.cos_cached",
       {8, 8},
       {},
       "y = Mul(x, t)",
       "rotary table"},
      {"Mask",
       "attn.mask",
       {8, 8},
       {},
       "y = Add(x, t)",
       "name is that of a mask"},
      {"PixelMean", "pixel_mean", {8}, {}, "y = Sub(x, t)", "statistic"},
      {"BiasOfGpt2",
       "h.0.attn.bias",
       {1, 1, 8, 8},
       {},
       "y = Add(x, t)",
       "[1, 1, n, n]"},
  };
}

std::vector<BufferCase> ByUse() {
  return {
      {"Comparand",
       "a",
       {8},
       {},
       "b = Less(x, t) y = Where(b, x, x)",
       "condition"},
      {"Condition",
       "a",
       {8},
       {},
       "b = Cast <to = 9> (t) y = Where(b, x, x)",
       "condition"},
      {"Bound", "a", {1}, {}, "y = Clip(x, t)", "bound"},
      {"CastExponent",
       "a",
       {1},
       {},
       "b = Cast <to = 1> (t) y = Pow(x, b)",
       "exponent"},
      {"StandardDeviation", "a", {1, 8}, {}, "y = Div(x, t)", "divided by"},
      {"Zero",
       "a",
       {1},
       Number(0),
       "b = Less(x, x) y = Where(b, t, x)",
       "single number"},
      {"Epsilon",
       "a",
       {1},
       Number(1e-5),
       "b = Mul(x, x) c = Add(b, t) d = Sqrt(c) y = Div(x, d)",
       "epsilon"},
      {"Frequencies",
       "a",
       {8},
       {},
       "b = Mul(x, t) c = Sin(b) d = Cos(b) y = Add(c, d)",
       "frequencies"},
      {"FrequenciesByProduct",
       "a",
       {8, 4},
       {},
       "b = MatMul(x, t) e = Concat <axis = -1> (b, b) c = Sin(e) d = Cos(e) "
       "y = Add(c, d)",
       "frequencies"},
  };
}

std::vector<BufferCase> ByNumbers() {
  return {
      {"HiddenByInfinity",
       "a",
       {8, 8},
       Hidden(-kInfinity),
       "y = Add(x, t)",
       "-10000"},
      {"HiddenByTheLowestHalf",
       "a",
       {8, 8},
       Hidden(-65504),
       "y = Add(x, t)",
       "-10000"},
      {"HiddenByTenThousand",
       "a",
       {8, 8},
       Hidden(-10000),
       "y = Add(x, t)",
       "-10000"},
      {"ChoiceThatHides",
       "a",
       {8},
       Number(-kInfinity),
       "b = Less(x, x) y = Where(b, t, x)",
       "-10000"},
      {"Triangle", "a", {8, 8}, Causal, "y = Mul(x, t)", "triangle"},
      {"OtherTriangle",
       "a",
       {8, 8},
       [](int64_t row, int64_t column) { return column > row ? 1.0 : 0.0; },
       "y = Mul(x, t)",
       "triangle"},
      {"AddedSinusoids",
       "a",
       {16, 8},
       Sinusoid,
       "y = Add(x, t)",
       "sines and cosines"},
      {"GatheredSinusoids",
       "a",
       {1, 16, 8},
       Sinusoid,
       "b = Slice(t, zero, two, one) y = Gather(b, ids)",
       "sines and cosines"},
      {"CosinesOfRotations",
       "a",
       {16, 8},
       Cosine,
       "y = Mul(x, t)",
       "sines and cosines"},
  };
}

std::vector<BufferCase> WeightsOfLayers() {
  const Fill one = Number(1), none = Number(0);
  return {
      {"Weight", "fc.weight", {8, 8}, {}, "y = MatMul(x, t)", ""},
      {"IdentityWeight",
       "fc.weight",
       {8, 8},
       [](int64_t row, int64_t column) { return row == column ? 1.0 : 0.0; },
       "y = MatMul(x, t)",
       ""},
      {"WeightOfRotaryAttention",
       "rotary_attn.wq.weight",
       {8, 8},
       {},
       "y = MatMul(x, t)",
       ""},
      {"Bias", "fc.bias", {8}, none, "y = Add(x, t)", ""},
      {"BiasOfOneUnit", "fc.bias", {1}, {}, "y = Add(x, t)", ""},
      {"Gamma", "norm.weight", {8}, one, "y = Mul(x, t)", ""},
      {"TableOfOnes", "a", {16, 8}, one, "y = Mul(x, t)", ""},
      {"LogitScale", "logit_scale", {1}, {}, "y = Mul(x, t)", ""},
  };
}

std::vector<BufferCase> OtherParameters() {
  const Fill none = Number(0);
  return {
      {"LearnedPositions", "pos_embed", {1, 16, 8}, {}, "y = Add(x, t)", ""},
      {"UntrainedPositions",
       "pos_embed",
       {1, 16, 8},
       none,
       "y = Add(x, t)",
       ""},
      {"Embedding", "wpe.weight", {16, 8}, {}, "y = Gather(t, ids)", ""},
      {"LargeEmbedding",
       "wpe.weight",
       {16, 8},
       [](int64_t row, int64_t column) {
         return std::sin(static_cast<double>(row * row + 7 * column));
       },
       "y = Gather(t, ids)",
       ""},
      {"MaskToken",
       "mask_token",
       {1, 1, 8},
       {},
       "b = Less(x, x) y = Where(b, t, x)",
       ""},
      {"LayerBeforeASine",
       "net.0.weight",
       {8, 8},
       {},
       "b = MatMul(x, t) c = Add(b, b) y = Sin(c)",
       ""},
      {"LayerBeforeOnlyASine",
       "net.0.weight",
       {8, 8},
       {},
       "b = MatMul(x, t) y = Sin(b)",
       ""},
      {"ComparedAndMultiplied",
       "a",
       {8},
       {},
       "b = Less(x, t) c = Mul(x, t) y = Where(b, x, c)",
       ""},
      {"LearnedExponent",
       "pool.p",
       {1},
       {},
       "b = Pow(x, t) c = Div(x, t) y = Add(b, c)",
       ""},
      {"OutputOfTheModel",
       "a",
       {8},
       {},
       "b = Less(x, t) y = Where(b, x, x) "
       "z = Identity(t)",
       ""},
  };
}

std::vector<Buffer> Find(const BufferCase& one) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[N, 16, 8] x, int64[3] ids) => (float[N, 16, 8] y, float[8] z) "
      "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> { " +
      one.nodes + " }");
  AddWeight(one.name, one.dims, 0.5, model);
  onnx::GraphProto& graph = *model.mutable_graph();
  auto& tensor = *graph.mutable_initializer()->rbegin();
  const int64_t width = one.dims.back();
  for (int i = 0; one.fill && i < tensor.float_data_size(); ++i) {
    tensor.set_float_data(i,
                          static_cast<float>(one.fill(i / width, i % width)));
  }
  for (auto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == "t") input = one.name;
    }
  }
  return FindBuffers(model, {});
}

class BufferTest : public ::testing::TestWithParam<BufferCase> {};
class ParameterTest : public ::testing::TestWithParam<BufferCase> {};

TEST_P(BufferTest, IsABuffer) {
  const auto found = Find(GetParam());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, GetParam().name);
  EXPECT_THAT(found[0].reason, HasSubstr(GetParam().reason));
}

TEST_P(ParameterTest, IsAParameter) {
  const auto found = Find(GetParam());
  EXPECT_TRUE(found.empty()) << found[0].reason;
}

INSTANTIATE_TEST_SUITE_P(ByName, BufferTest, ::testing::ValuesIn(ByName()),
                         [](const auto& info) { return info.param.what; });
INSTANTIATE_TEST_SUITE_P(ByUse, BufferTest, ::testing::ValuesIn(ByUse()),
                         [](const auto& info) { return info.param.what; });
INSTANTIATE_TEST_SUITE_P(ByNumbers, BufferTest,
                         ::testing::ValuesIn(ByNumbers()),
                         [](const auto& info) { return info.param.what; });
INSTANTIATE_TEST_SUITE_P(WeightsOfLayers, ParameterTest,
                         ::testing::ValuesIn(WeightsOfLayers()),
                         [](const auto& info) { return info.param.what; });
INSTANTIATE_TEST_SUITE_P(OtherParameters, ParameterTest,
                         ::testing::ValuesIn(OtherParameters()),
                         [](const auto& info) { return info.param.what; });

class HalfBufferTest : public ::testing::TestWithParam<int> {};

TEST_P(HalfBufferTest, NumbersOf16BitsAreAsGood) {
  for (const Fill& fill : {Fill(Sinusoid), Fill(Cosine), Hidden(-65504)}) {
    onnx::ModelProto model = ModelOfGraph(
        "(float[N, 16, 8] x) => (float[N, 16, 8] y) { y = Add(x, t) }");
    AddWeight("t", {16, 8}, 1, model);
    auto& tensor = *model.mutable_graph()->mutable_initializer(0);
    for (int i = 0; i < tensor.float_data_size(); ++i) {
      tensor.set_float_data(i, static_cast<float>(fill(i / 8, i % 8)));
    }
    ToHalf({.data_type = GetParam()}, model);
    EXPECT_EQ(FindBuffers(model, {}).size(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfBufferTest,
                         ::testing::Values(onnx::TensorProto::FLOAT16,
                                           onnx::TensorProto::BFLOAT16));

TEST(FindBuffersTest, WhatASubgraphReadsIsAParameter) {
  const auto model = ModelOfGraph(
      "(float[N] x, bool c) => (float[N] y, bool z) <float[2] t = {1, 2}> { "
      "z = Less(x, t) "
      "y = If (c) <then_branch = a () => (float[N] p) { p = Mul(x, t) }, "
      "else_branch = b () => (float[N] q) { q = Identity(x) }> }");
  EXPECT_TRUE(FindBuffers(model, {}).empty());
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
