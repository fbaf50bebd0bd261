#include "server/control/jobs/step_times.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

v1::Device Device(const std::string& name, const std::string& kind) {
  v1::Device device;
  device.set_name(name);
  device.set_kind(kind);
  v1::PeakRates& rates = *device.mutable_peak_rates();
  rates.set_float32_flops(100);
  rates.set_tf32_flops(400);
  rates.set_half_flops(800);
  rates.set_bytes(10);
  return device;
}

v1::StepWork Work() {
  v1::StepWork work;
  work.set_kernels(5);
  work.set_product_flops(8000);
  work.set_product_bytes(50);
  work.set_other_flops(200);
  work.set_other_bytes(40);
  return work;
}

double Compute(v1::Precision precision, const v1::Device& device) {
  const auto times = EstimateStepTimes(precision, Work(), {device});
  return times.empty() ? 0 : times[0].compute_seconds();
}

TEST(StepTimesTest, ProductsTakeTheRateOfThePrecision) {
  const v1::Device gpu = Device("cuda:0", "cuda");
  // 40 bytes at 10 a second take longer than 200 FLOPs at 100.
  EXPECT_DOUBLE_EQ(Compute(v1::PRECISION_UNSPECIFIED, gpu), 80 + 4);
  EXPECT_DOUBLE_EQ(Compute(v1::HIGHEST, gpu), 80 + 4);
  EXPECT_DOUBLE_EQ(Compute(v1::HIGH, gpu), 20 + 4);
  EXPECT_DOUBLE_EQ(Compute(v1::BF16, gpu), 10 + 4);
  EXPECT_DOUBLE_EQ(Compute(v1::FP16, gpu), 10 + 4);
}

TEST(StepTimesTest, BytesLimitProductsThatReadMuch) {
  v1::Device gpu = Device("cuda:0", "cuda");
  gpu.mutable_peak_rates()->set_bytes(1);
  EXPECT_DOUBLE_EQ(Compute(v1::BF16, gpu), 50 + 40);
}

TEST(StepTimesTest, AnUnknownRateOfBytesLimitsNothing) {
  v1::Device cpu = Device("cpu:0", "cpu");
  cpu.mutable_peak_rates()->set_bytes(0);
  EXPECT_DOUBLE_EQ(Compute(v1::HIGHEST, cpu), 80 + 2);
}

TEST(StepTimesTest, AnUnknownRateOfAPrecisionIsThatOfFloat32) {
  v1::Device gpu = Device("cuda:0", "cuda");
  gpu.mutable_peak_rates()->set_half_flops(0);
  EXPECT_DOUBLE_EQ(Compute(v1::BF16, gpu), 80 + 4);
}

TEST(StepTimesTest, MeasuredRatesReplacePeakRates) {
  v1::Device gpu = Device("cuda:0", "cuda");
  gpu.mutable_measured_rates()->set_float32_flops(50);
  gpu.mutable_measured_rates()->set_half_flops(400);
  gpu.mutable_measured_rates()->set_bytes(5);
  EXPECT_DOUBLE_EQ(Compute(v1::HIGHEST, gpu), 160 + 8);
  EXPECT_DOUBLE_EQ(Compute(v1::BF16, gpu), 20 + 8);
  // TF32 was not measured, so its products count as float32.
  EXPECT_DOUBLE_EQ(Compute(v1::HIGH, gpu), 160 + 8);
  const auto times =
      EstimateStepTimes(v1::HIGHEST, Work(), {gpu, Device("cuda:1", "cuda")});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_TRUE(times[0].at_measured_rates());
  EXPECT_FALSE(times[1].at_measured_rates());
}

TEST(StepTimesTest, MeasuredRatesAreEnoughForAnEstimate) {
  v1::Device cpu = Device("cpu:0", "cpu");
  cpu.clear_peak_rates();
  cpu.mutable_measured_rates()->set_float32_flops(50);
  EXPECT_DOUBLE_EQ(Compute(v1::HIGHEST, cpu), 160 + 4);
  // The memory was not measured, and its peak rate still holds.
  cpu.mutable_peak_rates()->set_bytes(1);
  EXPECT_DOUBLE_EQ(Compute(v1::HIGHEST, cpu), 160 + 40);
}

TEST(StepTimesTest, OnlyGpusTakeTimeToStartKernels) {
  const auto gpu =
      EstimateStepTimes(v1::HIGHEST, Work(), {Device("cuda:0", "cuda")});
  EXPECT_DOUBLE_EQ(gpu[0].launch_seconds(), 5 * kLaunchSeconds);
  EXPECT_DOUBLE_EQ(gpu[0].seconds(), 84);
  const auto cpu =
      EstimateStepTimes(v1::HIGHEST, Work(), {Device("cpu:0", "cpu")});
  EXPECT_EQ(cpu[0].launch_seconds(), 0);
}

TEST(StepTimesTest, AStepTakesAtLeastTheStartsOfItsKernels) {
  v1::Device gpu = Device("cuda:0", "cuda");
  gpu.mutable_peak_rates()->set_float32_flops(1e12);
  gpu.mutable_peak_rates()->set_bytes(1e12);
  const auto times = EstimateStepTimes(v1::HIGHEST, Work(), {gpu});
  EXPECT_LT(times[0].compute_seconds(), 1e-6);
  EXPECT_DOUBLE_EQ(times[0].seconds(), 5 * kLaunchSeconds);
}

TEST(StepTimesTest, DevicesWithTheSameRatesShareATime) {
  v1::Device other = Device("cuda:1", "cuda");
  other.mutable_peak_rates()->set_float32_flops(50);
  v1::Device unknown = Device("cuda:3", "cuda");
  unknown.clear_peak_rates();
  const auto times = EstimateStepTimes(
      v1::HIGHEST, Work(),
      {Device("cuda:0", "cuda"), other, Device("cuda:2", "cuda"), unknown});
  ASSERT_EQ(times.size(), 2u);
  ASSERT_EQ(times[0].devices_size(), 2);
  EXPECT_EQ(times[0].devices(1), "cuda:2");
  ASSERT_EQ(times[1].devices_size(), 1);
  EXPECT_EQ(times[1].devices(0), "cuda:1");
}

TEST(StepTimesTest, AMeasuredTimeReplacesTheEstimateOfItsDevices) {
  v1::Device other = Device("cpu:0", "cpu");
  std::vector<v1::StepTime> times =
      EstimateStepTimes(v1::HIGHEST, Work(), {Device("cuda:0", "cuda"), other});
  ASSERT_EQ(times.size(), 2u);
  v1::Job job;
  job.set_id(7);
  job.set_device("cpu:0");
  job.mutable_spec()->mutable_training()->set_batch_size(32);
  TakeMeasuredTime(job, times);
  EXPECT_EQ(times[1].measured_job_id(), 0u) << "it has reported no rate";
  job.mutable_progress()->set_samples_per_second(64);
  TakeMeasuredTime(job, times);
  EXPECT_EQ(times[0].measured_job_id(), 0u);
  EXPECT_EQ(times[1].measured_job_id(), 7u);
  EXPECT_DOUBLE_EQ(times[1].measured_seconds(), 0.5);
  EXPECT_DOUBLE_EQ(times[1].seconds(), 0.5);
  job.set_device("cuda:0");
  job.mutable_spec()->mutable_training()->set_accumulate_batches(4);
  TakeMeasuredTime(job, times);
  EXPECT_DOUBLE_EQ(times[0].measured_seconds(), 2);
}

}  // namespace
}  // namespace gpupool::server
