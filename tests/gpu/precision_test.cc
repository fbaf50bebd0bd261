// Training on a GPU in TF32 and in 16 bits, compared with float32 on the same
// GPU: curves, overflows, checkpoints.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/model_source.h"
#include "tests/engine/testing/model_program.h"
#include "tests/engine/train/next_token.h"
#include "tests/gpu/session_on_gpu.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kSteps = 60;
// Float16 gradients overflow with this scale until it has been halved several
// times.
constexpr double kLargeScale = 0x1p40;
constexpr char kOverflows[] =
    "precision: FP16 loss_scaling { initial: 1099511627776 growth_interval: 7 "
    "} deterministic: true ";

class PrecisionOnGpu : public SessionOnGpu {
 protected:
  static ProgramDevice Device() {
    return {&(*Gpu::Get())->backend(), &(*Gpu::Get())->allocator()};
  }
  static std::vector<double> TransformerLosses(v1::Precision precision) {
    return NextTokenTraining(Device(), precision).Losses(kSteps);
  }
};

TEST_F(PrecisionOnGpu, AConvolutionalNetLearnsAsInFloat32) {
  const auto wanted = Losses(*Start(gpu(), BarsJob("")), kSteps);
  for (const char* precision : {"HIGH", "BF16", "FP16"}) {
    SCOPED_TRACE(precision);
    const auto run =
        Start(gpu(), BarsJob(absl::StrCat("precision: ", precision)));
    ExpectSameCurve(Losses(*run, kSteps), wanted);
    EXPECT_EQ(run->memory().planned_peak_bytes(),
              run->memory().measured_peak_bytes());
  }
}

TEST_F(PrecisionOnGpu, ATransformerLearnsAsInFloat32) {
  const auto wanted = TransformerLosses(v1::HIGHEST);
  for (const v1::Precision precision : {v1::HIGH, v1::BF16, v1::FP16}) {
    SCOPED_TRACE(v1::Precision_Name(precision));
    ExpectSameCurve(TransformerLosses(precision), wanted);
  }
}

TEST_F(PrecisionOnGpu, FloatsFollowTheCurveOfTheHost) {
  ExpectSameCurve(Losses(*Start(gpu(), BarsJob("")), kSteps),
                  Losses(*Start(host(), BarsJob("")), kSteps));
}

TEST_F(PrecisionOnGpu, AnOverflowHalvesTheScaleAndSkipsTheStep) {
  const auto run =
      Start(gpu(), BarsJob(absl::StrCat(kOverflows, "freeze: '*.running_*'")));
  const std::string before = Bits(*run);
  ASSERT_TRUE(run->Step().ok());
  EXPECT_EQ(run->skipped_steps(), 1u);
  EXPECT_EQ(run->loss_scale(), kLargeScale / 2);
  uint64_t skipped = 1;
  for (double scale = kLargeScale / 4; scale > 0x1p20; scale /= 2) {
    ASSERT_TRUE(run->Step().ok());
    if (run->skipped_steps() == skipped) break;
    ++skipped;
    EXPECT_EQ(run->loss_scale(), scale);
    EXPECT_TRUE(std::isfinite(*run->Loss()));
  }
  EXPECT_GT(skipped, 5u);
  EXPECT_LT(skipped, 20u);
  EXPECT_NE(Bits(*run), before) << "no step was made in the end";
}

// Several steps are queued while the host reads nothing, so the host cannot be
// what skips them.
TEST_F(PrecisionOnGpu, TheDeviceSkipsStepsWithoutTheHost) {
  const v1::JobSpec job = BarsJob(kOverflows);
  auto program = ModelProgram::ForTraining(*ModelSource::Open(job.model(), ""),
                                           job.training(), Device());
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE((*program)->Load().ok());
  Executor& executor = (*program)->executor();
  (*program)->FillInputs(1, kBarsClasses);
  // Runs plainly, then recorded.
  for (int run = 0; run < 2; ++run) ASSERT_TRUE(executor.Run().ok());
  EXPECT_EQ((*program)->Output("loss_scale")[0], kLargeScale / 4);
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(executor.Start().ok());
  ASSERT_TRUE(executor.Finish().ok());
  EXPECT_EQ((*program)->Output("loss_scale")[0], kLargeScale / 64);
  int64_t skipped = 0;
  std::memcpy(&skipped, executor.output("skipped_steps").data(),
              sizeof(skipped));
  EXPECT_EQ(skipped, 6);
}

TEST_F(PrecisionOnGpu, ACheckpointHoldsScaleGrowthAndSkippedSteps) {
  const v1::JobSpec job = BarsJob(kOverflows);
  const auto whole = Start(gpu(), job);
  Losses(*whole, 25);
  const auto first = Start(gpu(), job);
  Losses(*first, 13);
  const auto second = Start(gpu(), job, Save(*first));
  EXPECT_EQ(second->skipped_steps(), first->skipped_steps());
  EXPECT_EQ(Bits(*second), Bits(*first));
  Losses(*second, 12);
  EXPECT_EQ(second->loss_scale(), whole->loss_scale());
  EXPECT_EQ(second->skipped_steps(), whole->skipped_steps());
  EXPECT_GT(whole->skipped_steps(), 0u);
  EXPECT_EQ(Bits(*second), Bits(*whole));
}

TEST_F(PrecisionOnGpu, TheHostGoesOnFromACheckpointOfTheGpu) {
  const v1::JobSpec job = BarsJob("precision: BF16");
  const auto on_gpu = Start(gpu(), job);
  Losses(*on_gpu, 20);
  const auto on_host = Start(host(), job, Save(*on_gpu));
  EXPECT_EQ(Bits(*on_host), Bits(*on_gpu));
  const std::vector<double> wanted = Losses(*on_gpu, 5);
  const std::vector<double> got = Losses(*on_host, 5);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], kCurveTolerance * wanted[i]);
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
