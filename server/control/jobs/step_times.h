// Estimates the time of a training step from its work and the rates of devices.
// Pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// About the time in which a GPU starts a kernel, which is also about the least
// time that a kernel takes.
inline constexpr double kLaunchSeconds = 3e-6;

// Returns the device's rates: measured ones where there are any, else peak
// rates.
v1::PeakRates RatesForPlans(const v1::Device& device);

// Returns the times, one for all devices with the same rates. Devices without
// rates have none.
//
//   compute = max(product FLOPs / rate of the precision, product bytes / bytes)
//           + max(other FLOPs / float32 rate, other bytes / bytes)
//   launch  = kernels * kLaunchSeconds on GPUs, else 0
//   seconds = max(compute, launch)
//
// An unknown rate of bytes counts as infinite.
std::vector<v1::StepTime> EstimateStepTimes(
    v1::Precision precision, const v1::StepWork& work,
    absl::Span<const v1::Device> devices);

// Sets the measured time in the entry that has the device of `job`, a job with
// the same plan. Ignores a job that has not reported a rate.
void TakeMeasuredTime(const v1::Job& job, std::vector<v1::StepTime>& times);

}  // namespace gpupool::server
