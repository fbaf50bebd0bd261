#include "engine/model/optimizer_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/graph/builder.h"
#include "gpupool/v1/limits.pb.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;
using ::testing::HasSubstr;
using testing::TrainingFromText;

// Returns two weights after four steps. The gradient of step t at p is p - t /
// 4.
Numbers AfterFourSteps(const std::string& optimizer,
                       const ParameterOptions& own = {}) {
  const v1::TrainingSpec training = TrainingFromText(optimizer);
  auto tail = ConvertOptimizer(training);
  EXPECT_TRUE(tail.ok()) << tail.status();
  if (!tail.ok()) return {};
  tail->parameters = {own};
  Graph graph;
  GraphBuilder builder(&graph);
  const TensorType type = {DType::kFloat32, {2}};
  const ValueId weight = *builder.Persistent("w", type, MemoryClass::kWeight);
  const ValueId gradient = *builder.Input("gradient", type);
  auto states = AddStepTail(graph, {weight}, {gradient}, *tail);
  EXPECT_TRUE(states.ok()) << states.status();
  NamedNumbers values = {{"w", {1.0, -0.5}}};
  for (const OptimizerState& state : *states) {
    values[state.name].assign(2, InitialOptimizerState(training));
  }
  for (int step = 1; step <= 4; ++step) {
    NamedNumbers inputs = {{"learning_rate", {0.1}},
                           {"step", {static_cast<double>(step)}}};
    for (double p : values["w"]) inputs["gradient"].push_back(p - step / 4.0);
    EXPECT_TRUE(reference::Run(graph, inputs, values).ok());
  }
  return values["w"];
}

// Expected values, as tests/conformance/pytorch/optimizers.py prints them.
TEST(OptimizerOptionsTest, WeightsAreThoseOfPytorchAfterFourSteps) {
  const std::pair<const char*, Numbers> cases[] = {
      {"rmsprop {}", {1.0150798747439744, 1.0451559236784442}},
      {"rmsprop { alpha: 0.9 epsilon: 1e-6 weight_decay: 0.01 momentum: 0.5 "
       "centered: true }",
       {0.631035031414316, 0.9435297796933562}},
      {"adagrad {}", {0.859185413211393, -0.1936254526654673}},
      {"adagrad { lr_decay: 0.1 weight_decay: 0.01 initial_accumulator: 0.25 }",
       {0.8760820159864399, -0.2508803415632696}},
      {"adamw {}", {0.6838211323713708, -0.09777829966762273}},
      {"sgd { learning_rate: 0.1 momentum: 0.9 nesterov: true "
       "weight_decay: 0.01 }",
       {0.6349313141945196, 0.5035343769641616}},
      {"adamax {}", {0.74547169247348583, -0.13943976114948631}},
      {"adamax { beta1: 0.8 beta2: 0.95 epsilon: 1e-6 weight_decay: 0.01 }",
       {0.74283365218182733, -0.13556613133913451}},
      {"lion { weight_decay: 0.01 }", {0.796605596101, -0.09860259810050001}},
  };
  for (const auto& [optimizer, weights] : cases) {
    EXPECT_LT(testing::Distance(AfterFourSteps(optimizer), weights), 1e-9)
        << optimizer;
  }
}

// The same, of a parameter group with half the rate and weight_decay=0.3.
TEST(OptimizerOptionsTest, EveryOptimizerTakesTheOptionsOfAWeight) {
  const std::pair<const char*, Numbers> cases[] = {
      {"sgd { learning_rate: 0.1 momentum: 0.9 }",
       {0.6848659615625, -0.01777095812499994}},
      {"adam {}", {0.8156041170691964, -0.2996126641187965}},
      {"adamw { weight_decay: 0.9 }",
       {0.7799816124446513, -0.2749943404540791}},
      {"rmsprop {}", {0.6654193994762286, 0.6204017076305859}},
      {"adagrad {}", {0.8983993386689001, -0.3470385969859297}},
      {"adamax {}", {0.8474943766206339, -0.31982621434630915}},
      {"lion {}", {0.8457917193749998, -0.2751234440625}},
  };
  for (const auto& [optimizer, weights] : cases) {
    EXPECT_LT(
        testing::Distance(AfterFourSteps(optimizer, {.rate_factor = 0.5,
                                                     .weight_decay = 0.3}),
                          weights),
        1e-9)
        << optimizer;
  }
}

TEST(OptimizerOptionsTest, FieldsOutOfRangeAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "choose sgd, adam, adamw, rmsprop, adagrad, lion or adamax"},
      {"rmsprop { alpha: 1 }", "rmsprop: alpha 1"},
      {"rmsprop { epsilon: 0 }", "rmsprop: epsilon 0"},
      {"rmsprop { learning_rate: 0 }", "rmsprop: learning_rate 0"},
      {"rmsprop { momentum: 1 }", "rmsprop: momentum 1"},
      {"rmsprop { weight_decay: -1 }", "rmsprop: weight_decay -1"},
      {"adagrad { lr_decay: -1 }", "adagrad: lr_decay -1"},
      {"adagrad { epsilon: nan }", "adagrad: epsilon nan"},
      {"adagrad { initial_accumulator: -1 }", "initial_accumulator -1"},
      {"adagrad { weight_decay: inf }", "adagrad: weight_decay inf"},
      {"lion { beta1: 1 }", "lion: beta1 1"},
      {"lion { beta2: -0.5 }", "lion: beta2 -0.5"},
      {"lion { weight_decay: -1 }", "lion: weight_decay -1"},
      {"adamax { beta2: 1 }", "adamax: beta2 1"},
      {"adam {} clip_gradient_norm: nan", "clip_gradient_norm nan"},
  };
  for (const auto& [text, message] : cases) {
    auto tail = ConvertOptimizer(TrainingFromText(text));
    EXPECT_EQ(tail.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(tail.status().message(), HasSubstr(message)) << text;
  }
}

TEST(BaseLearningRateTest, DefaultsAreThoseOfTheOptimizer) {
  v1::TrainingSpec training;
  EXPECT_THAT(BaseLearningRate(training).status().message(),
              HasSubstr("no optimizer"));
  training.mutable_sgd();
  EXPECT_THAT(BaseLearningRate(training).status().message(),
              HasSubstr("sgd.learning_rate is missing"));
  training.mutable_sgd()->set_learning_rate(0.1);
  EXPECT_EQ(*BaseLearningRate(training), 0.1);
  training.mutable_adam();
  EXPECT_EQ(*BaseLearningRate(training), 1e-3);
  training.mutable_adamw()->set_learning_rate(0.5);
  EXPECT_EQ(*BaseLearningRate(training), 0.5);
  training.mutable_rmsprop();
  EXPECT_EQ(*BaseLearningRate(training), 1e-2);
  training.mutable_adagrad();
  EXPECT_EQ(*BaseLearningRate(training), 1e-2);
  training.mutable_lion();
  EXPECT_EQ(*BaseLearningRate(training), 1e-4);
  training.mutable_adamax();
  EXPECT_EQ(*BaseLearningRate(training), 2e-3);
}

TEST(BaseLearningRateTest, RatesMustBeFiniteAndPositive) {
  for (double rate : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    v1::TrainingSpec training;
    training.mutable_adam()->set_learning_rate(rate);
    EXPECT_EQ(BaseLearningRate(training).status().code(),
              absl::StatusCode::kInvalidArgument)
        << rate;
  }
}

// The message, the defaults and the op table agree on the optimizers.
TEST(OptimizerOptionsTest, EveryOptimizerOfTheMessageHasAStep) {
  const auto* optimizers =
      v1::TrainingSpec::descriptor()->FindOneofByName("optimizer");
  for (int i = 0; i < optimizers->field_count(); ++i) {
    SCOPED_TRACE(optimizers->field(i)->name());
    v1::TrainingSpec training;
    google::protobuf::Message* message =
        training.GetReflection()->MutableMessage(&training,
                                                 optimizers->field(i));
    message->GetReflection()->SetDouble(
        message, message->GetDescriptor()->FindFieldByName("learning_rate"),
        0.25);
    EXPECT_EQ(*BaseLearningRate(training), 0.25);
    auto tail = ConvertOptimizer(training);
    ASSERT_TRUE(tail.ok()) << tail.status();
    EXPECT_EQ(OpName(StepOf(tail->optimizer)).substr(0, 2),
              optimizers->field(i)->name().substr(0, 2));
  }
}

// A number without a limit would be taken as it is, NaN included.
TEST(OptimizerOptionsTest, EveryNumberOfAnOptimizerHasALimit) {
  const auto* optimizers =
      v1::TrainingSpec::descriptor()->FindOneofByName("optimizer");
  for (int i = 0; i < optimizers->field_count(); ++i) {
    const auto* fields = optimizers->field(i)->message_type();
    for (int k = 0; k < fields->field_count(); ++k) {
      const google::protobuf::FieldDescriptor* field = fields->field(k);
      const bool number = field->cpp_type() ==
                          google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE;
      EXPECT_EQ(field->options().GetExtension(v1::limit) != v1::ANY, number)
          << field->full_name();
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
