// Compares every op of the table on the GPU with the reference back end, with
// random shapes, attributes and layouts, in all floating types; and whole
// programs.
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/backends/cpu/training/optimizer_skip.h"
#include "tests/engine/backends/portable/attention_cases.h"
#include "tests/engine/backends/portable/compare.h"
#include "tests/engine/backends/portable/compare_program.h"
#include "tests/engine/backends/portable/node_runner.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/gpu/gpu.h"

namespace gpupool::engine::testing {
namespace {

// Allows for float32 sums in a different order, and for Winograd's transforms.
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

// Products that are larger than those of the random cases, for which the
// libraries are made.
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

void Attend(OpCase& at, bool causal, const std::vector<Shape>& mask = {}) {
  const auto operand = [&] { return at.Floats({2, 4, 128, 64}, -1, 1); };
  std::vector<ValueId> inputs = {operand(), operand(), operand()};
  for (const Shape& shape : mask) inputs.push_back(at.Floats(shape));
  at.Emit(Op::kAttention, inputs, AttentionAttributes{0.125, causal, true});
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
    {"MaskedAttention",
     [](OpCase& at) {
       Attend(at, false, {{2, 1, 1, 128}});
     }},
    {"MaskedCausalAttention",
     [](OpCase& at) {
       Attend(at, true, {{128, 128}});
     }},
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

// Sizes that the libraries support, and that are composed in float32. Lse and y
// of the gradient are those of its forward pass.
TEST_F(GpuTest, AttentionAndItsGradientAgree) {
  AttentionCase at;
  at.sizes = {2, 2, 128, 128, 64, 64};
  for (const DType type :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    at.type = type;
    for (const char* mask : {"", "11TS", "B1TS", "BHTS", "B11S"}) {
      at.mask = mask;
      at.blind = at.mask.size() == 4 && at.mask[2] == 'T';
      for (const bool causal : {false, true}) {
        at.causal = causal;
        SCOPED_TRACE(at.Text());
        ExpectAttentionAgrees(at, gpu().backend(),
                              type == DType::kFloat32 ? 2e-5 : 3e-2,
                              &gpu().allocator());
      }
    }
  }
}

// Cases that no library supports: odd heads, causal with different numbers of
// keys and queries.
TEST_F(GpuTest, SoDoesAttentionInOtherSizes) {
  for (const DType type :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const AttentionCase& at : AttentionCases(type)) {
      SCOPED_TRACE(at.Text());
      ExpectAttentionAgrees(at, gpu().backend(),
                            type == DType::kFloat32 ? 2e-5 : 3e-2,
                            &gpu().allocator());
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
