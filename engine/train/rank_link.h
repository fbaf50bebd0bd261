// The communication of a training run with the other ranks of its job, apart
// from the sums of its programs. Every call but Abort waits for the same call
// of all ranks and has the errors of Collective.
//
// Belongs to the compute thread of the run; any thread may call Abort.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/collective/collective.h"
#include "engine/collective/rendezvous.h"
#include "engine/model/loss_terms.h"
#include "engine/runtime/weight_store.h"
#include "engine/train/rank_group.h"

namespace gpupool::engine {

// The sum of one loss over held-out rows, and the divisor of its mean.
struct WeightedSum {
  double loss = 0;
  double weight = 0;
};

// Sums over held-out rows.
struct EvaluationSums {
  double loss = 0;    // the leading one, or the only one
  double weight = 0;  // divisor of `loss`: rows, or their class weights
  int64_t correct = 0;
  int64_t top_k = 0;
  int64_t counted = 0;
  std::array<WeightedSum, kMaxLosses> others;  // by their places in the spec
};

class RankLink {
 public:
  // Connects and returns when all ranks have connected. Errors of ConnectGloo.
  static absl::StatusOr<std::unique_ptr<RankLink>> Connect(
      const RankGroup& group);

  Collective* collective() const { return collective_.get(); }
  int rank() const { return collective_->rank(); }
  int size() const { return collective_->size(); }

  // Checks that all ranks are at the same step with the same weights and
  // optimizer state. FAILED_PRECONDITION on all ranks names the first that
  // differs.
  absl::Status CheckSame(uint64_t step, const WeightStore& weights);
  // Copies the running statistics of rank 0 to all ranks.
  absl::Status ShareState(const WeightStore& weights);
  // Returns the sums over the ranks. They are added in the order of the ranks,
  // so all ranks get the same result.
  absl::StatusOr<EvaluationSums> Sum(const EvaluationSums& mine);

  // Returns the bytes of all ranks, one after the other. All give equally many.
  absl::StatusOr<std::vector<std::byte>> Gather(
      absl::Span<const std::byte> mine);

  void Abort(absl::string_view reason) { collective_->Abort(reason); }

 private:
  explicit RankLink(const RankGroup& group) : store_(group.folder) {}

  FolderRendezvous store_;
  std::unique_ptr<Collective> collective_;
};

}  // namespace gpupool::engine
