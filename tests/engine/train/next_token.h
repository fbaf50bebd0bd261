// A tiny GPT-2 that learns which token follows each token, on any device.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/base/philox.h"
#include "tests/engine/testing/gpt2.h"
#include "tests/engine/testing/model_program.h"

namespace gpupool::engine::testing {

class NextTokenTraining {
 public:
  NextTokenTraining(const ProgramDevice& device, v1::Precision precision,
                    uint32_t batch = 8)
      : batch_(batch) {
    v1::TrainingSpec training;
    training.mutable_cross_entropy();
    training.mutable_adam();
    training.set_batch_size(batch);
    training.set_precision(precision);
    auto program = ModelProgram::ForTraining(Gpt2(kTinyGpt2), training, device);
    EXPECT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
    EXPECT_TRUE(program_->Load().ok());
  }

  // Makes one step and returns its loss. The next token is three times the
  // present one plus one, or sometimes another.
  double Step() {
    ++step_;
    std::vector<int64_t> tokens, labels;
    for (int64_t row = 0; row < batch_; ++row) {
      auto token = static_cast<int64_t>(
          random_.NextBelow(static_cast<uint64_t>(kTinyGpt2.vocabulary)));
      for (int64_t i = 0; i < kTinyGpt2.tokens; ++i) {
        tokens.push_back(token);
        token = (3 * token + 1) % kTinyGpt2.vocabulary;
        labels.push_back(token);
      }
    }
    program_->SetInput("tokens", absl::MakeConstSpan(tokens));
    program_->SetInput("labels", absl::MakeConstSpan(labels));
    program_->SetInput("learning_rate", 0.003);
    program_->SetInput("step", absl::MakeConstSpan(&step_, 1));
    const absl::Status status = program_->Run();
    EXPECT_TRUE(status.ok()) << status;
    return double{program_->Output("loss")[0]};
  }
  std::vector<double> Losses(int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(Step());
    return losses;
  }

  const ModelProgram& program() const { return *program_; }

 private:
  const int64_t batch_;
  Philox random_{9};
  int64_t step_ = 0;
  std::unique_ptr<ModelProgram> program_;
};

}  // namespace gpupool::engine::testing
