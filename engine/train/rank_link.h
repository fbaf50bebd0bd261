// What a training run says to the other ranks of its job beside the sums of
// its programs. Every call but Abort waits for the same call of all ranks and
// has the errors of Collective.
//
// Belongs to the compute thread of the run; Abort may be called from any.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/collective/collective.h"
#include "engine/collective/rendezvous.h"
#include "engine/runtime/weight_store.h"
#include "engine/train/rank_group.h"

namespace gpupool::engine {

// Sums over held-out rows.
struct EvaluationSums {
  double loss = 0;
  int64_t correct = 0;
  int64_t top_k = 0;
  int64_t counted = 0;
};

class RankLink {
 public:
  // Returns when all ranks have connected; errors of ConnectGloo.
  static absl::StatusOr<std::unique_ptr<RankLink>> Connect(
      const RankGroup& group);

  Collective* collective() const { return collective_.get(); }
  int rank() const { return collective_->rank(); }
  int size() const { return collective_->size(); }

  // FAILED_PRECONDITION on all ranks, naming the first that differs, unless
  // all are at the same step with the same weights and optimizer state.
  absl::Status CheckSame(uint64_t step, const WeightStore& weights);
  // Gives all ranks the running statistics of rank 0.
  absl::Status ShareState(const WeightStore& weights);
  // The sums over the ranks, added in their order: the same on all of them.
  absl::StatusOr<EvaluationSums> Sum(const EvaluationSums& mine);

  void Abort(absl::string_view reason) { collective_->Abort(reason); }

 private:
  explicit RankLink(const RankGroup& group) : store_(group.folder) {}

  FolderRendezvous store_;
  std::unique_ptr<Collective> collective_;
};

}  // namespace gpupool::engine
