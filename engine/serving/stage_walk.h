// The way of one request through the stages of a model: which stage is next,
// and which tensors the stages pass on. Planning walks the ways that need the
// most, and a request walks its own; both use this class.
//
// Belongs to one thread. A plain value, except for its store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/stage.h"
#include "engine/serving/stage_store.h"

namespace gpupool::engine {

// Most iterations of a loop whose trip count is not known when the model is
// planned.
inline constexpr int64_t kMaxComputedTrips = 10000;
// A known trip count above this counts as none. Exporters write the largest
// integer for loops that only have a condition.
inline constexpr int64_t kMostTrips = int64_t{1} << 20;

// Returns the trip count for which memory is planned.
int64_t PlannedTrips(const StageEnd& loop);

class StageWalk {
 public:
  explicit StageWalk(StageStore store) : store_(std::move(store)) {}
  StageWalk(StageWalk&&) = default;

  // Returns a walk that goes on from here and only counts bytes.
  StageWalk CountOn() const;

  const StageAnswers& answers() const { return answers_; }
  StageStore& store() { return store_; }
  const StageStore& store() const { return store_; }

  // Removes tensors that are not needed after the stage, and makes space for
  // those that it passes on. `bytes` are those of its outputs by name. Returns
  // the names of outputs to copy into the store. RESOURCE_EXHAUSTED from the
  // store.
  using Sizes = absl::flat_hash_map<std::string, uint64_t>;
  absl::StatusOr<std::vector<std::string>> Receive(const StageEnd& end,
                                                   const Sizes& bytes);
  // Make space for results and for the carried values of a loop, and return
  // the names, in order.
  absl::StatusOr<std::vector<std::string>> AddResults(const StageEnd& end,
                                                      int64_t rows);
  absl::StatusOr<std::vector<std::string>> AddStates(const StageEnd& end);
  // Makes space for the rows of all iterations in the first one. Returns where
  // the rows of this one belong: names, and offsets in bytes.
  //   INVALID_ARGUMENT  a row has another type than in earlier iterations, or
  //                     all rows are too many bytes
  struct RowPlace {
    std::string name;
    uint64_t offset = 0;
  };
  absl::StatusOr<std::vector<RowPlace>> AddRows(const StageEnd& end);

  // Go to the next stage.
  void TakeBranch(bool taken) { answers_.push_back(taken ? 1 : 0); }
  void TakeResults(int64_t rows);
  // Begins a loop of at most this many trips. Leaves it at once if there are
  // none or it does not go on.
  absl::Status BeginLoop(const StageEnd& end, int64_t trips, bool goes_on);
  // Begins the next iteration or leaves the loop.
  //   RESOURCE_EXHAUSTED  the loop goes on beyond the planned trips
  absl::Status EndIteration(const StageEnd& end, bool goes_on);
  // Leaves the loop of the stage now, after this many iterations.
  void LeaveLoop(const StageEnd& end, int64_t iterations);

  // Return the number of iterations before the current one of the innermost
  // loop, and the types of its states.
  int64_t iteration() const { return loops_.back().iteration; }
  const std::vector<TensorType>& entered() const {
    return loops_.back().entered;
  }
  int64_t trips() const { return loops_.back().trips; }
  // Returns the answers before those of the innermost loop.
  const StageAnswers& before_loop() const { return loops_.back().before; }
  // Returns the places of the loops that have begun, the innermost one last.
  std::vector<std::string> OpenLoops() const;
  // Returns whether the innermost loop has taken results.
  bool has_results() const { return loops_.back().has_results; }

 private:
  struct Loop {
    std::string place;
    StageAnswers before;  // the answers before the loop's
    int64_t trips = 0;
    bool limited = true;  // whether the trips are those of the model
    int64_t iteration = 0;
    bool has_results = false;
    std::vector<TensorType> entered;
    std::vector<TensorType> rows;
  };
  absl::Status Enter(const StageEnd& end);

  StageAnswers answers_;
  std::vector<Loop> loops_;
  StageStore store_;
};

}  // namespace gpupool::engine
