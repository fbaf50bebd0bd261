// Training steps during which the next batch is copied to the device, and steps
// that first copy their own batch, in turns on one device. Each kind has its
// own weights. The weights of both stay equal to the bit.
//
// Thread-safety: one thread, on which the device is current.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmarks/gpu_case.h"
#include "engine/train/input/batch_landing.h"

namespace gpupool::engine::testing {

// Returns the landing of a training program's batches: its inputs except for
// scalars.
LandingLayout LandingOf(const Program& program);

class NextBatchSteps {
 public:
  // Prepares both kinds of steps. The device's parts must outlive this.
  //   FAILED_PRECONDITION  the device has no copies beside its work
  //   RESOURCE_EXHAUSTED   the training does not fit twice
  static absl::StatusOr<std::unique_ptr<NextBatchSteps>> Create(
      const GpuCase& gpu_case, const ProgramDevice& device);
  NextBatchSteps(const NextBatchSteps&) = delete;
  NextBatchSteps& operator=(const NextBatchSteps&) = delete;

  // Makes one step, after which the host has its outputs. In each step the host
  // gathers one batch: StepAhead gathers the next batch while the device works,
  // the other kind gathers the step's own batch first.
  absl::Status StepAhead();
  absl::Status StepWithout();
  // Returns whether the last steps of both kinds gave the same outputs, to the
  // bit.
  bool Agree() const { return ahead_->Outputs() == without_->Outputs(); }

 private:
  NextBatchSteps() = default;
  // Gathers a batch in the same way as rows of a data set.
  template <typename Place>
  void Gather(const Place& place);
  absl::Status SendNext();

  std::unique_ptr<ModelProgram> ahead_, without_;
  std::unique_ptr<BatchLanding> landing_;
  std::map<std::string, std::vector<std::byte>> rows_;  // in pageable memory
  uint64_t batch_ = 0;  // the batch in the landing
};

}  // namespace gpupool::engine::testing
