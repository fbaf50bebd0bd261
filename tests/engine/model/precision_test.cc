#include "engine/model/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/verify.h"
#include "engine/model/model_programs.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

TEST(PrecisionTest, OnlySixteenBitOnesChangeTheType) {
  EXPECT_EQ(ComputeType(v1::PRECISION_UNSPECIFIED), DType::kFloat32);
  EXPECT_EQ(ComputeType(v1::HIGHEST), DType::kFloat32);
  EXPECT_EQ(ComputeType(v1::HIGH), DType::kFloat32);
  EXPECT_EQ(ComputeType(v1::BF16), DType::kBFloat16);
  EXPECT_EQ(ComputeType(v1::FP16), DType::kFloat16);
  EXPECT_TRUE(AllowsTensorFloat32(v1::HIGH));
  EXPECT_FALSE(AllowsTensorFloat32(v1::HIGHEST));
}

TEST(LossScalingOptionsTest, Float16HasTheDefaultsOfGradScaler) {
  const auto scaling = ConvertLossScaling(TrainingFromText("precision: FP16"));
  ASSERT_TRUE(scaling.ok() && scaling->has_value());
  EXPECT_EQ((*scaling)->initial, 65536);
  EXPECT_EQ((*scaling)->growth_factor, 2);
  EXPECT_EQ((*scaling)->backoff_factor, 0.5);
  EXPECT_EQ((*scaling)->growth_interval, 2000);
}

TEST(LossScalingOptionsTest, OtherPrecisionsScaleNothing) {
  for (const char* text : {"", "precision: HIGH", "precision: BF16"}) {
    const auto scaling = ConvertLossScaling(TrainingFromText(text));
    ASSERT_TRUE(scaling.ok()) << scaling.status();
    EXPECT_FALSE(scaling->has_value());
  }
}

TEST(LossScalingOptionsTest, ErrorsNameFieldValueAndLimit) {
  const std::pair<const char*, const char*> cases[] = {
      {"loss_scaling {}", "set precision: fp16"},
      {"precision: FP16 loss_scaling { initial: 1e-9 }", "initial is 1e-09"},
      {"precision: FP16 loss_scaling { initial: 1e39 }", "initial is 1e+39"},
      {"precision: FP16 loss_scaling { growth_factor: 1 }",
       "growth_factor is 1; it must be above 1"},
      {"precision: FP16 loss_scaling { backoff_factor: 0 }",
       "backoff_factor is 0; it must be above 0"},
      {"precision: FP16 loss_scaling { growth_interval: 0 }",
       "growth_interval is 0"},
  };
  for (const auto& [text, message] : cases) {
    const auto scaling = ConvertLossScaling(TrainingFromText(text));
    EXPECT_EQ(scaling.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(scaling.status().message(), HasSubstr(message)) << text;
  }
}

constexpr char kJob[] = "cross_entropy {} adam {} batch_size: 8 ";

const PersistentSpec* Find(const ModelGraph& model, absl::string_view name) {
  for (const PersistentSpec& spec : model.persistents) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

TEST(MixedPrecisionGraphTest, WeightsAndOptimizerStateStayFloat32) {
  for (const char* precision : {"precision: BF16", "precision: FP16"}) {
    SCOPED_TRACE(precision);
    auto model = BuildTrainingGraph(
        DigitsModel(), {}, TrainingFromText(std::string(kJob) + precision));
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(Verify(model->graph).ok()) << Verify(model->graph);
    int low_products = 0;
    for (const Value& value : model->graph.values()) {
      if (value.kind == ValueKind::kPersistent) {
        EXPECT_NE(SizeOf(value.dtype), 2u) << value.name;
      }
    }
    for (const Node& node : model->graph.nodes()) {
      const DType dtype = model->graph.value(node.outputs[0]).dtype;
      if (node.op == Op::kConv2d || node.op == Op::kMatMul ||
          node.op == Op::kConv2dWeightGrad) {
        EXPECT_EQ(SizeOf(dtype), 2u) << OpName(node.op);
        ++low_products;
      }
      if (node.op == Op::kAdamStep || node.op == Op::kCrossEntropy) {
        EXPECT_EQ(dtype, DType::kFloat32);
      }
    }
    EXPECT_GT(low_products, 5);
  }
}

TEST(MixedPrecisionGraphTest, TheScaleIsStateOfTheOptimizer) {
  auto model = BuildTrainingGraph(
      DigitsModel(), {},
      TrainingFromText(std::string(kJob) +
                       "precision: FP16 loss_scaling { initial: 32 }"));
  ASSERT_TRUE(model.ok()) << model.status();
  const PersistentSpec* scale = Find(*model, kLossScaleName);
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->memory_class, MemoryClass::kOptimizer);
  EXPECT_EQ(scale->initializer.value, 32);
  ASSERT_NE(Find(*model, kLossScaleGrowthName), nullptr);
  ASSERT_NE(Find(*model, kLossScaleSkippedName), nullptr);
  EXPECT_TRUE(model->graph.FindOutput("loss_scale").has_value());
  EXPECT_TRUE(model->graph.FindOutput("skipped_steps").has_value());
  auto plain = BuildTrainingGraph(DigitsModel(), {}, TrainingFromText(kJob));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(Find(*plain, kLossScaleName), nullptr);
}

// In exact arithmetic the scale makes no difference, with every kind of
// clipping and number of batches per step.
TEST(MixedPrecisionGraphTest, TheScaleCancels) {
  for (const char* clip :
       {"", "clip_gradient_norm: 0.05", "clip_gradient_value: 0.01",
        "clip_gradient_norm: 0.05 clip_gradient_value: 0.01",
        "accumulate_batches: 4 clip_gradient_norm: 0.05"}) {
    SCOPED_TRACE(clip);
    const auto weights_after = [&](const std::string& scaling) {
      const std::string job = std::string(kJob) + clip + " precision: FP16 " +
                              "loss_scaling { initial: " + scaling + " }";
      auto model = BuildTrainingGraph(DigitsModel(), {}, TrainingFromText(job));
      EXPECT_TRUE(model.ok()) << model.status();
      auto state = InitialPersistents(*model, 3);
      if (Accumulates(TrainingFromText(job))) {
        for (const Value& value : model->graph.values()) {
          if (value.kind == ValueKind::kPersistent &&
              !state.contains(value.name)) {
            state[value.name] = reference::Numbers(
                static_cast<size_t>(value.shape.elements()), 0.0);
          }
        }
      }
      const auto inputs = RandomInputs(model->graph, 5);
      const auto outputs = reference::Run(model->graph, inputs, state);
      EXPECT_TRUE(outputs.ok()) << outputs.status();
      return state["dense_8.weight"];
    };
    EXPECT_LT(Distance(weights_after("1024"), weights_after("1")), 1e-6);
  }
}

}  // namespace
}  // namespace gpupool::engine
