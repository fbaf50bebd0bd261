// Averages the gradients of a step over the ranks, bucket by bucket: a bucket
// is on its way as soon as its last gradient has been given, while backward
// computes the next.
//
// Belongs to one thread; the collective must outlive it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/collective/collective.h"
#include "engine/collective/gradient_buckets.h"

namespace gpupool::engine {

class GradientReducer {
 public:
  // Takes memory for all gradients once. No step allocates more of it.
  GradientReducer(GradientBuckets buckets, Collective* collective);
  // Waits for what is on its way.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Copies the gradient of a parameter; starts the buckets that are complete
  // with it. INVALID_ARGUMENT for a parameter that is unknown, was given in
  // this step already or has another size; errors of the collective.
  absl::Status Give(int parameter, absl::Span<const float> gradient);

  // Waits for all buckets and divides by the number of ranks; then a new step
  // may begin. FAILED_PRECONDITION when a parameter was not given.
  absl::Status Finish();

  // The averaged gradient: valid from Finish until the next Give.
  absl::Span<const float> gradient(int parameter) const;

 private:
  // In flat_.
  uint64_t BeginOf(const BucketSlot& slot) const;

  GradientBuckets buckets_;
  Collective* collective_;
  std::vector<float> flat_;
  std::vector<bool> given_;                // by parameter
  std::vector<size_t> missing_;            // by bucket: gradients not given yet
  std::vector<CollectiveTicket> tickets_;  // of the buckets started
};

}  // namespace gpupool::engine
