// Training steps whose next batch is copied to the device while they run, and
// the same steps with batches that come with them, on one device in turns. The
// two have weights of their own, which stay the same to the bit.
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
#include "engine/train/batch_landing.h"

namespace gpupool::engine::testing {

// Where the batches of a training program land: its inputs but for scalars.
LandingLayout LandingOf(const Program& program);

class NextBatchSteps {
 public:
  // FAILED_PRECONDITION where the device copies nothing beside its work;
  // RESOURCE_EXHAUSTED when the training does not fit twice. The device's parts
  // must outlive this.
  static absl::StatusOr<std::unique_ptr<NextBatchSteps>> Create(
      const GpuCase& gpu_case, const ProgramDevice& device);
  NextBatchSteps(const NextBatchSteps&) = delete;
  NextBatchSteps& operator=(const NextBatchSteps&) = delete;

  // One step, after which the host has its outputs. The host gathers a batch in
  // each: the next one while the device works, or the step's own before it.
  absl::Status StepAhead();
  absl::Status StepWithout();
  // Whether the last steps of the two gave the same outputs, to the bit.
  bool Agree() const { return ahead_->Outputs() == without_->Outputs(); }

 private:
  NextBatchSteps() = default;
  // Gathers a batch as a data set's rows are.
  template <typename Place>
  void Gather(const Place& place);
  absl::Status SendNext();

  std::unique_ptr<ModelProgram> ahead_, without_;
  std::unique_ptr<BatchLanding> landing_;
  std::map<std::string, std::vector<std::byte>> rows_;  // in pageable memory
  uint64_t batch_ = 0;                                  // in the landing
};

}  // namespace gpupool::engine::testing
