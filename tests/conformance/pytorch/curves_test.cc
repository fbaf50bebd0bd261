// Training follows PyTorch's: the same initial weights and batches give the
// same loss at each of 30 steps, rtol 1e-4.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/pytorch/formula.h"
#include "tests/conformance/pytorch/stored_case.h"
#include "tests/engine/testing/onnx_program.h"

namespace gpupool::testing {
namespace {

using engine::testing::OnnxProgram;

constexpr double kRelativeTolerance = 1e-4;

// Sets an optimizer of make.py.
void SetOptimizer(const std::string& name, double rate,
                  v1::TrainingSpec& training) {
  if (name == "sgd") {
    training.mutable_sgd()->set_learning_rate(rate);
    training.mutable_sgd()->set_momentum(0.9);
  } else if (name == "adam") {
    training.mutable_adam()->set_learning_rate(rate);
  } else if (name == "adamw") {
    training.mutable_adamw()->set_learning_rate(rate);
    training.mutable_adamw()->set_weight_decay(0.01);
    training.set_decay_biases_and_norms(true);  // as PyTorch does
  } else if (name == "rmsprop") {
    training.mutable_rmsprop()->set_learning_rate(rate);
  } else {
    training.mutable_adagrad()->set_learning_rate(rate);
  }
}

using Case = std::tuple<const char*, const char*>;

class PytorchCurves : public ::testing::TestWithParam<Case> {};

TEST_P(PytorchCurves, Agree) {
  const auto [model, optimizer] = GetParam();
  const StoredCase stored = OpenStoredCase(model);
  const nlohmann::json& facts = stored.facts;
  const int64_t batch = facts["batch"];
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  training.set_batch_size(static_cast<uint32_t>(batch));
  const double rate = facts["rates"][optimizer];
  SetOptimizer(optimizer, rate, training);
  const auto program = OnnxProgram::ForTraining(stored.source, training, 2);
  int64_t numbers = batch;
  for (const int64_t dim : facts["input_shape"]) numbers *= dim;
  const std::vector<double> losses = facts["losses"][optimizer];
  for (size_t i = 0; i < losses.size(); ++i) {
    const int64_t step[] = {static_cast<int64_t>(i) + 1};
    const uint64_t first = i * static_cast<uint64_t>(numbers);
    program->SetInput("input", UniformNumbers(kInputStream + first, numbers));
    program->SetInput("labels",
                      Integers(kLabelStream + i * static_cast<uint64_t>(batch),
                               batch, facts["classes"]));
    program->SetInput("learning_rate", rate);
    program->SetInput("step", absl::MakeConstSpan(step));
    ASSERT_TRUE(program->Run().ok());
    ASSERT_NEAR(program->Output("loss")[0], losses[i],
                kRelativeTolerance * std::abs(losses[i]))
        << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PytorchCurves,
    ::testing::Combine(
        ::testing::Values("train_mlp", "train_cnn", "train_resnet18",
                          "train_encoder", "train_lstm"),
        ::testing::Values("sgd", "adam", "adamw", "rmsprop", "adagrad")),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" +
             std::get<1>(info.param);
    });

}  // namespace
}  // namespace gpupool::testing
