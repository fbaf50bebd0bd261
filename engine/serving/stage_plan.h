// Plans a model that runs in stages: finds the stages that need the most, and
// the bytes that they pass on. Both branches of each If are planned, results
// with as many rows as they can have, and loops with all their trips.
//
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/layer_spec.h"
#include "engine/serving/stage_walk.h"

namespace gpupool::engine {

// Most stages of one plan.
inline constexpr int kMaxPlannedStages = 128;
// Most iterations of a loop whose carried values change their shapes: each
// needs programs of its own.
inline constexpr int64_t kMaxGrowingTrips = 32;

class StagePlanner {
 public:
  // Builds the stage after these answers.
  using Build =
      std::function<absl::StatusOr<ModelGraph>(const StageAnswers& answers)>;
  // Takes a stage of the plan.
  using Add =
      std::function<absl::Status(const StageAnswers& answers, ModelGraph)>;

  StagePlanner(Build build, Add add)
      : build_(std::move(build)), add_(std::move(add)) {}

  // Plans all stages from the first one on.
  //   INVALID_ARGUMENT  too many stages, or what StageWalk refuses; names the
  //                     node
  absl::Status Plan(ModelGraph first);

  // Returns the most bytes that stages pass on at a time.
  uint64_t PassedBytes() const;

 private:
  // The bytes of a loop. Only its first iteration is planned, which begins
  // without rows. Later iterations hold the rows as well.
  struct LoopBytes {
    uint64_t most = 0;  // in the first iteration
    uint64_t rows = 0;
    std::vector<std::string> outside;  // places of the loops around it
  };

  // Notes what the walk has passed on since the last call.
  void Note(StageWalk& walk);
  absl::Status Visit(StageWalk walk, ModelGraph stage);
  absl::Status GoOn(StageWalk walk);
  absl::Status Branch(StageWalk walk, const StageEnd& end);
  absl::Status Begin(StageWalk walk, const StageEnd& end);
  absl::Status Iterate(StageWalk walk, const StageEnd& end);

  const Build build_;
  const Add add_;
  int stages_ = 0;
  std::string decider_;  // the last node that ended a stage
  uint64_t passed_bytes_ = 0;
  std::map<std::string, LoopBytes> loops_;  // by place
  // Branches, and ends of iterations, that were planned.
  absl::flat_hash_set<std::string> planned_;
};

}  // namespace gpupool::engine
