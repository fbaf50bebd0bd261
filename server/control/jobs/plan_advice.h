// Advice on a planned job: sentences that say what, with which numbers, and
// what to write in the job file. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

// A plan with its figures. The references must outlive it.
struct PlannedJob {
  const v1::JobSpec& spec;
  // With plan, total_steps, largest_batches and step_times.
  const v1::PlanJobResponse& response;
  // The devices that the job may run on.
  absl::Span<const v1::Device> devices;
  // Whether the pool has CPU devices, for this job or others.
  bool pool_has_cpus = false;
  // The rows that train; 0: the dataset is not known.
  uint64_t rows = 0;
};

// Returns all sentences: the four below, in this order.
std::vector<std::string> PlanAdvice(const PlannedJob& job);

// Returns a sentence for each limit: the largest batch that fits, or one that
// fits at least if none is known not to. If the job's own batch does not fit,
// it says how to split that.
std::vector<std::string> BatchAdvice(const PlannedJob& job);

// Returns a sentence for each GPU on which starting the kernels of a step takes
// longer than their FLOPs and bytes at peak rates.
std::vector<std::string> SmallJobAdvice(const PlannedJob& job);

// Returns at most three sentences on layers whose number of outputs is no
// multiple of 8 (16-bit precisions) or 4 (TF32) and that have at least 5% of
// the products' FLOPs. Returns none for float32 or without GPUs.
std::vector<std::string> OddSizeAdvice(const PlannedJob& job);

// Returns a sentence for each kind of device: the time of a step and of the
// job, and whether it is measured or estimated.
std::vector<std::string> TimeAdvice(const PlannedJob& job);

}  // namespace gpupool::server
