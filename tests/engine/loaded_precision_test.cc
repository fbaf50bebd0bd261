// Serves one version in float32 and in 16 bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/loaded_model.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

constexpr uint32_t kRows = 16;

class LoadedPrecisionTest : public SessionFixture {
 protected:
  std::string Train() {
    auto run = Start(DigitsJob());
    EXPECT_TRUE(run.ok()) << run.status();
    StepTo(**run, 100);
    auto checkpoint = (*run)->SaveCheckpoint();
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return checkpoint->manifest_sha256();
  }

  std::unique_ptr<LoadedModel> Load(const std::string& manifest,
                                    v1::Precision precision) {
    session_->ResetPeak();
    auto model = session_->LoadModel({.version_id = 1,
                                      .name = "digits/1",
                                      .manifest_sha256 = manifest,
                                      .max_batch_size = kRows,
                                      .precision = precision});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }

  // Returns scores of the same rows of random pixels.
  static std::vector<float> Scores(LoadedModel& model) {
    Philox random(3);
    std::vector<float> input(kRows * 64);
    for (float& x : input) x = 16 * random.NextFloat();
    return Answers(model, input);
  }
};

TEST_F(LoadedPrecisionTest, AnswersAreCloseToThoseOfFloat32) {
  const std::string manifest = Train();
  const std::vector<float> wanted = Scores(*Load(manifest, v1::HIGHEST));
  const float largest = std::abs(*std::max_element(
      wanted.begin(), wanted.end(),
      [](float a, float b) { return std::abs(a) < std::abs(b); }));
  for (const v1::Precision precision : {v1::BF16, v1::FP16}) {
    SCOPED_TRACE(v1::Precision_Name(precision));
    const auto model = Load(manifest, precision);
    EXPECT_EQ(model->measured_bytes(),
              session_->memory_stats().peak_allocated_bytes());
    const std::vector<float> got = Scores(*model);
    float worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::abs(got[i] - wanted[i]));
    }
    EXPECT_LT(worst, (precision == v1::BF16 ? 0.03f : 0.004f) * largest);
    EXPECT_GT(worst, 0) << "nothing was computed in 16 bits";
  }
  EXPECT_EQ(Scores(*Load(manifest, v1::HIGH)), wanted)
      << "a processor has no TF32";
}

TEST_F(LoadedPrecisionTest, ThePlanIsOfThePrecision) {
  v1::ModelSpec model = DigitsJob().model();
  const auto whole = session_->PlanInference(model, {.max_batch_size = 32});
  const auto half = session_->PlanInference(
      model, {.max_batch_size = 32, .precision = v1::BF16});
  ASSERT_TRUE(whole.ok() && half.ok());
  EXPECT_LT(half->inference().activations(), whole->inference().activations());
}

TEST_F(LoadedPrecisionTest, LargeLayersIn16BitsTakeHalfTheBytes) {
  v1::JobSpec job = DigitsJob();
  job.mutable_model()->clear_layers();
  job.mutable_model()->add_layers()->mutable_flatten();
  for (int i = 0; i < 2; ++i) {
    job.mutable_model()->add_layers()->mutable_dense()->set_units(1024);
    job.mutable_model()->add_layers()->mutable_relu();
  }
  job.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  auto run = Start(job);
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 2);
  const auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  run->reset();
  const std::string& manifest = checkpoint->manifest_sha256();
  const uint64_t whole = Load(manifest, v1::HIGHEST)->measured_bytes();
  for (const v1::Precision precision : {v1::BF16, v1::FP16}) {
    SCOPED_TRACE(v1::Precision_Name(precision));
    const auto model = Load(manifest, precision);
    // Processors without float16 products widen the operands in the arena.
    EXPECT_LE(
        static_cast<double>(model->measured_bytes()),
        (precision == v1::BF16 ? 0.55 : 0.8) * static_cast<double>(whole));
    EXPECT_EQ(model->measured_bytes(),
              session_->memory_stats().peak_allocated_bytes());
    const auto plan = session_->PlanInference(
        job.model(), {.max_batch_size = kRows, .precision = precision});
    ASSERT_TRUE(plan.ok()) << plan.status();
    // The rest is for the input scaling, which the job has but its model has
    // not.
    EXPECT_LE(model->measured_bytes() - plan->inference().peak(), 4096u);
  }
}

}  // namespace
}  // namespace gpupool::engine
