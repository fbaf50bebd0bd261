#include "engine/passes/raise/quantise.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/backends/reference/interpreter.h"
#include "engine/base/philox.h"
#include "tests/engine/passes/coded_graph.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

const QuantizeAttributes kUnsigned{0.25, {DType::kUint8, 128, 0, 255}};
const QuantizeAttributes kRectified{0.125, {DType::kUint8, 0, 0, 255}};
const QuantizeAttributes kSigned{0.5, {DType::kInt8, 3, -128, 127}};

class QuantiseTest : public testing::PassTest {
 protected:
  testing::CodedGraph coded_{&builder_};

  ValueId Image(const std::string& name, DType dtype = DType::kUint8) {
    return *builder_.Input(name, {dtype, {2, 4, 6, 5}});
  }
  ValueId Numbers(ValueId codes, const QuantizeAttributes& of) {
    return coded_.Dequantize(codes, {of.scale, of.codes.zero});
  }
  // Returns a convolution of the image with weights and bias.
  ValueId Conv(ValueId image, ValueId weights) {
    Conv2dAttributes conv;
    conv.padding = {1, 1};
    conv.epilogue.bias = true;
    return Emit(Op::kConv2d, {image, weights, Weight("bias", {3})}, conv);
  }
  ValueId Conv(const QuantizeAttributes& of) {
    return Conv(Numbers(Image("x", of.codes.dtype), of),
                coded_.Weights("w", {3, 4, 3, 3}));
  }
  void Output(ValueId id) { graph_.AddOutput("y", id); }

  std::vector<std::string> StepOps() const {
    std::vector<std::string> ops;
    for (const Node& node : graph_.nodes()) {
      bool weights = true;
      for (const ValueId id : node.inputs) weights &= IsOfWeights(id);
      if (!weights) ops.push_back(std::string(OpName(node.op)));
    }
    return ops;
  }

  // Runs the pass and expects the same numbers, except that a code may be its
  // neighbour.
  void RunAndCompare() {
    const Graph before = graph_;
    Run(Quantise);
    EXPECT_LE(FarthestCode(before, graph_), 1);
  }

 private:
  bool IsOfWeights(ValueId id) const {
    const GraphIndex index(graph_);
    if (graph_.value(id).kind == ValueKind::kInput) return false;
    const int producer = index.producer(id);
    if (producer < 0) return true;
    for (const ValueId input :
         graph_.nodes()[static_cast<size_t>(producer)].inputs) {
      if (!IsOfWeights(input)) return false;
    }
    return true;
  }

  static reference::Numbers Random(Philox& random, const Value& value) {
    reference::Numbers numbers(static_cast<size_t>(value.shape.elements()));
    const bool scale = value.name.ends_with("_scale");
    for (double& x : numbers) {
      if (value.dtype == DType::kFloat32) {
        x = scale ? 0.01 + 0.01 * random.NextDouble() : random.NextDouble();
        x = static_cast<float>(x);
      } else {
        x = std::floor(256 * random.NextDouble()) -
            (value.dtype == DType::kInt8 ? 128 : 0);
      }
    }
    return numbers;
  }

  static double FarthestCode(const Graph& a, const Graph& b) {
    Philox random(3);
    reference::NamedNumbers inputs, persistents;
    for (const Value& value : a.values()) {
      if (value.kind == ValueKind::kInput) {
        inputs[value.name] = Random(random, value);
      } else if (value.kind == ValueKind::kPersistent) {
        persistents[value.name] = Random(random, value);
      }
    }
    const auto first =
        reference::Run(a, inputs, persistents, {.round_to_dtype = true});
    const auto second =
        reference::Run(b, inputs, persistents, {.round_to_dtype = true});
    EXPECT_TRUE(first.ok() && second.ok()) << second.status();
    double farthest = 0;
    for (const auto& [name, numbers] : *first) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        farthest =
            std::max(farthest, std::abs(numbers[i] - second->at(name)[i]));
      }
    }
    return farthest;
  }
};

TEST_F(QuantiseTest, AConvolutionBetweenCodesComputesWithThem) {
  Output(coded_.Quantize(Conv(kUnsigned), kSigned));
  RunAndCompare();
  ASSERT_THAT(StepOps(), ElementsAre("quantized_conv2d"));
  const auto& conv = graph_.nodes().back().get<QuantizedConv2dAttributes>();
  EXPECT_EQ(conv.x_zero, 128);
  EXPECT_EQ(conv.codes, kSigned.codes);
}

TEST_F(QuantiseTest, SignedCodesAreTakenToo) {
  Output(coded_.Quantize(Conv(kSigned), kUnsigned));
  RunAndCompare();
  EXPECT_THAT(StepOps(), ElementsAre("quantized_conv2d"));
}

TEST_F(QuantiseTest, ActivationsNarrowTheCodes) {
  Output(coded_.Quantize(Emit(Op::kUnary, {Emit(Op::kRelu, {Conv(kUnsigned)})},
                              UnaryAttributes{UnaryFunction::kClip, -1, 6}),
                         kSigned));
  RunAndCompare();
  ASSERT_THAT(StepOps(), ElementsAre("quantized_conv2d"));
  const auto& codes =
      graph_.nodes().back().get<QuantizedConv2dAttributes>().codes;
  EXPECT_EQ(codes.low, 3);        // the code of 0
  EXPECT_EQ(codes.high, 3 + 12);  // the code of 6
}

TEST_F(QuantiseTest, ConstantWeightsMayHaveOneScale) {
  const ValueId codes =
      builder_.Constant({DType::kFloat32, {3, 4, 3, 3}}, {-7});
  const ValueId weights =
      coded_.Binary(BinaryFunction::kMultiply, codes, coded_.Number(0.02));
  Output(
      coded_.Quantize(Conv(Numbers(Image("x"), kUnsigned), weights), kSigned));
  RunAndCompare();
  EXPECT_THAT(StepOps(), ElementsAre("quantized_conv2d"));
}

TEST_F(QuantiseTest, WeightsThatTheFileQuantisesAreCodesAtLoad) {
  const ValueId stored = Weight("w", {3, 4, 3, 3});
  const QuantizeAttributes to{0.01, {DType::kInt8, 0, -128, 127}};
  Output(coded_.Quantize(
      Conv(Numbers(Image("x"), kUnsigned), coded_.Coded(stored, to)), kSigned));
  RunAndCompare();
  EXPECT_THAT(StepOps(), ElementsAre("quantized_conv2d"));
}

TEST_F(QuantiseTest, AFilterWithScaleZeroKeepsItsBias) {
  const ValueId codes = builder_.Constant({DType::kFloat32, {3, 4, 3, 3}}, {7});
  const ValueId scale =
      builder_.Constant({DType::kFloat32, {3, 1, 1, 1}}, {0.5, 0, 0.25});
  const ValueId weights =
      coded_.Binary(BinaryFunction::kMultiply, codes, scale);
  Output(coded_.Quantize(Conv(Numbers(Image("x"), kUnsigned), weights),
                         kRectified));
  RunAndCompare();
  EXPECT_THAT(StepOps(), ElementsAre("quantized_conv2d"));
}

TEST_F(QuantiseTest, ASumOfTwoValuesIsOneNode) {
  const ValueId a = Numbers(Image("a"), kUnsigned);
  const ValueId b = Numbers(Image("b"), kRectified);
  Output(
      coded_.Quantize(Emit(Op::kRelu, {Emit(Op::kAdd, {a, b})}), kRectified));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("quantized_add"));
}

TEST_F(QuantiseTest, ASumOfTwoTypesIsComputedInNumbers) {
  const ValueId a = Numbers(Image("a"), kUnsigned);
  const ValueId b = Numbers(Image("b", DType::kInt8), kSigned);
  Output(coded_.Quantize(Emit(Op::kAdd, {a, b}), kRectified));
  RunAndCompare();
  EXPECT_THAT(Ops(),
              ElementsAre("dequantize", "dequantize", "add", "quantize"));
}

TEST_F(QuantiseTest, PoolsAndMovesWorkOnTheSameCodes) {
  Pool2dAttributes pool;
  pool.kernel = {2, 2};
  const ValueId x = Numbers(Image("x"), kUnsigned);
  const ValueId pooled = coded_.Coded(Emit(Op::kMaxPool, {x}, pool), kUnsigned);
  Output(coded_.Quantize(Emit(Op::kReshape, {pooled}, ShapeAttributes{{2, 80}}),
                         kUnsigned));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("max_pool", "reshape"));
}

TEST_F(QuantiseTest, APoolBetweenDifferentCodesStays) {
  Pool2dAttributes pool;
  pool.kernel = {2, 2};
  const ValueId x = Numbers(Image("x"), kUnsigned);
  Output(coded_.Quantize(Emit(Op::kMaxPool, {x}, pool), kRectified));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("dequantize", "max_pool", "quantize"));
}

TEST_F(QuantiseTest, NumbersThatAreReadTwiceStayNumbers) {
  const ValueId y = Conv(kUnsigned);
  graph_.AddOutput("numbers", Emit(Op::kSigmoid, {y}));
  Output(coded_.Quantize(y, kSigned));
  RunAndCompare();
  EXPECT_THAT(StepOps(),
              ElementsAre("dequantize", "conv2d", "sigmoid", "quantize"));
}

TEST_F(QuantiseTest, NumbersThatAreAnOutputStayNumbers) {
  const ValueId y = Conv(kUnsigned);
  const ValueId rectified = Emit(Op::kRelu, {y});
  graph_.AddOutput("numbers", rectified);
  Output(coded_.Quantize(rectified, kSigned));
  RunAndCompare();
  EXPECT_THAT(StepOps(),
              ElementsAre("dequantize", "conv2d", "relu", "quantize"));
}

TEST_F(QuantiseTest, CodesMayBeReadByOthers) {
  const ValueId codes = coded_.Quantize(Conv(kUnsigned), kSigned);
  graph_.AddOutput("numbers", Numbers(codes, kSigned));
  Output(codes);
  RunAndCompare();
  EXPECT_THAT(StepOps(), ElementsAre("quantized_conv2d", "dequantize"));
}

TEST_F(QuantiseTest, AScaleThatIsNoConstantStaysInFloats) {
  const ValueId scale = Weight("scale", {});
  Output(coded_.Quantize(Conv(kUnsigned), kSigned, scale));
  RunAndCompare();
  EXPECT_THAT(Ops(), Not(Contains("quantized_conv2d")));
  EXPECT_THAT(Ops(), Not(Contains("quantize")));
}

TEST_F(QuantiseTest, WeightsWithAZeroPointStayInFloats) {
  const ValueId codes = *builder_.Persistent("w", {DType::kInt8, {3, 4, 3, 3}},
                                             MemoryClass::kWeight);
  const ValueId weights = coded_.Dequantize(codes, {0.01, 2});
  Output(
      coded_.Quantize(Conv(Numbers(Image("x"), kUnsigned), weights), kSigned));
  RunAndCompare();
  EXPECT_THAT(Ops(), Contains("conv2d"));
}

TEST_F(QuantiseTest, WeightsThatAreNoCodesStayInFloats) {
  Output(coded_.Quantize(
      Conv(Numbers(Image("x"), kUnsigned), Weight("w", {3, 4, 3, 3})),
      kSigned));
  RunAndCompare();
  EXPECT_THAT(StepOps(), ElementsAre("dequantize", "conv2d", "quantize"));
}

TEST_F(QuantiseTest, SumsThatCouldOverflowStayInFloats) {
  const int64_t channels = kMaxCodeProducts + 1;
  const ValueId x = *builder_.Input("x", {DType::kUint8, {1, channels, 1, 1}});
  const ValueId y =
      Emit(Op::kConv2d,
           {Numbers(x, kUnsigned), coded_.Weights("w", {1, channels, 1, 1})},
           Conv2dAttributes{});
  Output(coded_.Quantize(y, kSigned));
  Run(Quantise);
  EXPECT_THAT(StepOps(), ElementsAre("dequantize", "conv2d", "quantize"));
}

TEST_F(QuantiseTest, ATrainingStepKeepsItsNumbers) {
  Output(coded_.Quantize(Conv(kUnsigned), kSigned));
  const ValueId p = Weight("p", {2});
  const ValueId average = Weight("average", {2});
  const ValueId next = Emit(Op::kEmaUpdate, {average, p}, EmaAttributes{0.9});
  ASSERT_TRUE(builder_.Update(next, average).ok());
  Run(Quantise);
  EXPECT_THAT(Ops(), Contains("conv2d"));
  EXPECT_THAT(Ops(), Not(Contains("quantized_conv2d")));
}

}  // namespace
}  // namespace gpupool::engine
