#include "server/control/jobs/step_times.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "scheduler/state/device_choice.h"

namespace gpupool::server {
namespace {

double ProductRate(v1::Precision precision, const v1::PeakRates& rates) {
  double rate = 0;
  if (precision == v1::HIGH) rate = rates.tf32_flops();
  if (precision == v1::BF16 || precision == v1::FP16) rate = rates.half_flops();
  return rate > 0 ? rate : rates.float32_flops();
}

// Returns the time of work that is limited by arithmetic or by memory.
double Roofline(double flops, double flops_rate, double bytes,
                double bytes_rate) {
  return std::max(flops / flops_rate, bytes_rate > 0 ? bytes / bytes_rate : 0);
}

v1::StepTime TimeOn(const v1::Device& device, v1::Precision precision,
                    const v1::StepWork& work) {
  const v1::PeakRates rates = RatesForPlans(device);
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  v1::StepTime time;
  time.set_compute_seconds(
      Roofline(number(work.product_flops()), ProductRate(precision, rates),
               number(work.product_bytes()), rates.bytes()) +
      Roofline(number(work.other_flops()), rates.float32_flops(),
               number(work.other_bytes()), rates.bytes()));
  if (device.kind() != scheduler::kCpuKind) {
    time.set_launch_seconds(number(work.kernels()) * kLaunchSeconds);
  }
  time.set_seconds(std::max(time.compute_seconds(), time.launch_seconds()));
  time.set_at_measured_rates(device.measured_rates().float32_flops() > 0);
  return time;
}

}  // namespace

v1::PeakRates RatesForPlans(const v1::Device& device) {
  const v1::PeakRates& measured = device.measured_rates();
  v1::PeakRates rates = device.peak_rates();
  if (!(measured.float32_flops() > 0)) return rates;
  rates.set_float32_flops(measured.float32_flops());
  // A type without measurements is not computed faster than float32 there.
  rates.set_tf32_flops(measured.tf32_flops());
  rates.set_half_flops(measured.half_flops());
  if (measured.bytes() > 0) rates.set_bytes(measured.bytes());
  return rates;
}

std::vector<v1::StepTime> EstimateStepTimes(
    v1::Precision precision, const v1::StepWork& work,
    absl::Span<const v1::Device> devices) {
  std::vector<v1::StepTime> times;
  for (const v1::Device& device : devices) {
    if (!(RatesForPlans(device).float32_flops() > 0)) continue;
    v1::StepTime time = TimeOn(device, precision, work);
    auto same = std::find_if(
        times.begin(), times.end(), [&](const v1::StepTime& other) {
          return other.compute_seconds() == time.compute_seconds() &&
                 other.launch_seconds() == time.launch_seconds() &&
                 other.at_measured_rates() == time.at_measured_rates();
        });
    if (same == times.end()) same = times.insert(same, std::move(time));
    same->add_devices(device.name());
  }
  return times;
}

void TakeMeasuredTime(const v1::Job& job, std::vector<v1::StepTime>& times) {
  const double rate = job.progress().samples_per_second();
  const v1::TrainingSpec& training = job.spec().training();
  const double samples = static_cast<double>(training.batch_size()) *
                         std::max(training.accumulate_batches(), 1u);
  if (!(rate > 0) || !(samples > 0)) return;
  for (v1::StepTime& time : times) {
    const auto& devices = time.devices();
    if (time.measured_job_id() != 0 ||
        std::find(devices.begin(), devices.end(), job.device()) ==
            devices.end()) {
      continue;
    }
    time.set_measured_seconds(samples / rate);
    time.set_measured_job_id(job.id());
    time.set_seconds(time.measured_seconds());
  }
}

}  // namespace gpupool::server
