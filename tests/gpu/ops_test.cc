// Every op of the table on the GPU against the reference back end, with random
// shapes, attributes and layouts, in all floating types; and whole programs.
#include <gtest/gtest.h>

#include <ostream>

#include "absl/strings/str_cat.h"
#include "engine/tensor/convert.h"
#include "tests/engine/backends/cpu/optimizer_skip.h"
#include "tests/engine/backends/portable/compare.h"
#include "tests/engine/backends/portable/compare_program.h"
#include "tests/engine/backends/portable/node_runner.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/gpu/gpu.h"

namespace gpupool::engine::testing {
namespace {

// Sums of float32 products in another order, and transforms of Winograd's.
constexpr double kProductTolerance = 2e-5;

class OnGpu : public GpuTest {
 protected:
  BackendUnderTest on() {
    return {.backend = &gpu().backend(),
            .allocator = &gpu().allocator(),
            .float32_tolerance = kProductTolerance,
            .rounding = 2};
  }
};

class OpOnGpu : public OnGpu,
                public ::testing::WithParamInterface<OpCaseMaker> {};

TEST_P(OpOnGpu, AgreesInFloat32) { ExpectAgreesInFloat32(GetParam(), on()); }

TEST_P(OpOnGpu, AgreesInTheOtherFloatingTypes) {
  ExpectAgreesInOtherTypes(GetParam(), on());
}

TEST_P(OpOnGpu, NormalisesSixteenBitNumbersBesideFloat32) {
  ExpectNormalisesInSixteenBits(GetParam(), on());
}

INSTANTIATE_TEST_SUITE_P(Gpu, OpOnGpu, ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

// Larger products than the random cases have: those that the libraries are
// made for.
struct LargeCase {
  std::string name;
  void (*build)(OpCase& at);
};

void PrintTo(const LargeCase& large, std::ostream* out) { *out << large.name; }

void Product(OpCase& at, Activation activation) {
  MatMulAttributes matmul;
  matmul.transpose_b = true;
  matmul.epilogue.bias = true;
  matmul.epilogue.activation = activation;
  at.Emit(Op::kMatMul,
          {at.Floats({128, 256}, -1, 1), at.Floats({192, 256}, -1, 1),
           at.Floats({192})},
          matmul);
}

void Convolution(OpCase& at, bool residual) {
  Conv2dAttributes conv;
  conv.padding = Padding(1, 1);
  conv.epilogue.bias = true;
  conv.epilogue.residual = residual;
  conv.epilogue.activation = Activation::kRelu;
  std::vector<ValueId> inputs = {at.Floats({4, 32, 14, 14}, -1, 1),
                                 at.Floats({32, 32, 3, 3}, -1, 1),
                                 at.Floats({32})};
  if (residual) inputs.push_back(at.Floats({4, 32, 14, 14}));
  at.Emit(Op::kConv2d, inputs, conv);
}

void Attend(OpCase& at, bool causal) {
  const auto operand = [&] { return at.Floats({2, 4, 128, 64}, -1, 1); };
  at.Emit(Op::kAttention, {operand(), operand(), operand()},
          AttentionAttributes{0.125, causal, true});
}

const LargeCase kLargeCases[] = {
    {"Product", [](OpCase& at) { Product(at, Activation::kNone); }},
    {"ProductRelu", [](OpCase& at) { Product(at, Activation::kRelu); }},
    {"ProductGelu", [](OpCase& at) { Product(at, Activation::kGelu); }},
    {"ProductGeluTanh", [](OpCase& at) { Product(at, Activation::kGeluTanh); }},
    {"Convolution", [](OpCase& at) { Convolution(at, false); }},
    {"ConvolutionResidual", [](OpCase& at) { Convolution(at, true); }},
    {"Attention", [](OpCase& at) { Attend(at, false); }},
    {"CausalAttention", [](OpCase& at) { Attend(at, true); }},
};

class LargeOpOnGpu : public OnGpu,
                     public ::testing::WithParamInterface<LargeCase> {};

TEST_P(LargeOpOnGpu, AgreesInAllComputeTypesAndLayouts) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", channels_last));
      OpCase at(1);
      GetParam().build(at);
      if (channels_last &&
          Info(at.graph().nodes()[0].op).layout == LayoutRule::kSame) {
        at.UseChannelsLast();
      }
      const bool changed = ChangeFloats(at, dtype);
      ASSERT_TRUE(changed || dtype == DType::kFloat32);
      ExpectAgreement(
          at,
          dtype == DType::kFloat32 ? kProductTolerance : 2 * ToleranceOf(dtype),
          on());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, LargeOpOnGpu, ::testing::ValuesIn(kLargeCases),
                         [](const auto& info) { return info.param.name; });

// A gradient whose lse and y are those of its forward pass.
TEST_F(GpuTest, AttentionAndItsGradientAgree) {
  for (const bool causal : {false, true}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), causal ? " causal" : ""));
      Graph graph;
      GraphBuilder builder(&graph);
      const TensorType type{dtype, {2, 2, 64, 32}};
      const AttentionAttributes attention{0.2, causal, true};
      reference::NamedNumbers inputs;
      std::vector<ValueId> ids;
      uint64_t seed = 3;
      for (const char* name : {"q", "k", "v", "dy"}) {
        ids.push_back(*builder.Input(name, type));
        reference::Numbers numbers =
            RandomNumbers(type.shape.elements(), ++seed);
        for (double& x : numbers) x = RoundToDType(dtype, x);
        inputs[name] = numbers;
      }
      const auto y =
          *builder.Emit(Op::kAttention, {ids[0], ids[1], ids[2]}, attention);
      const auto slopes = *builder.Emit(
          Op::kAttentionGrad, {ids[3], ids[0], ids[1], ids[2], y[0], y[1]},
          attention);
      for (size_t i = 0; i < 3; ++i) {
        graph.AddOutput(absl::StrCat("d", i), slopes[i]);
      }
      reference::NamedNumbers none;
      const auto got =
          RunNodes(gpu().backend(), graph, inputs, none, &gpu().allocator());
      ASSERT_TRUE(got.ok()) << got.status();
      const auto wanted =
          reference::Run(graph, inputs, none, {.round_to_dtype = true});
      ASSERT_TRUE(wanted.ok()) << wanted.status();
      for (const auto& [name, numbers] : *wanted) {
        EXPECT_LE(ErrorOf(got->at(name), numbers),
                  dtype == DType::kFloat32 ? 1e-5 : 3e-2)
            << name;
      }
    }
  }
}

class OptimizerOnGpu : public OnGpu,
                       public ::testing::WithParamInterface<const char*> {};

TEST_P(OptimizerOnGpu, SkipsStepsWhoseClipIsNoNumber) {
  ExpectSkips(GetParam(), [this](const Graph& graph,
                                 const reference::NamedNumbers& inputs,
                                 reference::NamedNumbers& state) {
    return RunNodes(gpu().backend(), graph, inputs, state, &gpu().allocator());
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, OptimizerOnGpu, ::testing::ValuesIn(kOptimizers),
                         [](const auto& info) { return info.param; });

class ProgramOnGpu : public OnGpu, public ::testing::WithParamInterface<int> {
 protected:
  void ExpectAgrees(bool training) {
    ExpectRandomProgramAgrees(static_cast<uint64_t>(GetParam()), training,
                              on());
  }
};

TEST_P(ProgramOnGpu, InferenceAgrees) { ExpectAgrees(false); }
TEST_P(ProgramOnGpu, TrainingAgrees) { ExpectAgrees(true); }

INSTANTIATE_TEST_SUITE_P(Seeds, ProgramOnGpu, ::testing::Range(0, 20));

}  // namespace
}  // namespace gpupool::engine::testing
