#include "engine/serving/stage_plan.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

std::vector<TensorType> TypesOf(const std::vector<StageTensor>& tensors) {
  std::vector<TensorType> types;
  for (const StageTensor& tensor : tensors) types.push_back(tensor.type);
  return types;
}

// Returns the position of the first state whose shape differs.
size_t FirstOther(const std::vector<TensorType>& a,
                  const std::vector<TensorType>& b) {
  size_t i = 0;
  while (i < a.size() && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

absl::Status StagePlanner::Plan(ModelGraph first) {
  return Visit(StageWalk(StageStore()), std::move(first));
}

void StagePlanner::Note(StageWalk& walk) {
  const uint64_t most = walk.store().TakePeak();
  passed_bytes_ = std::max(passed_bytes_, most);
  std::vector<std::string> places = walk.OpenLoops();
  while (!places.empty()) {
    LoopBytes& loop = loops_[places.back()];
    places.pop_back();
    loop.most = std::max(loop.most, most);
    loop.outside = places;
  }
}

uint64_t StagePlanner::PassedBytes() const {
  uint64_t most = passed_bytes_;
  for (const auto& [place, loop] : loops_) {
    // Loops around it have their rows, too, from their second iterations on.
    uint64_t bytes = loop.most + loop.rows;
    for (const std::string& outer : loop.outside) {
      bytes += loops_.at(outer).rows;
    }
    most = std::max(most, bytes);
  }
  return most;
}

absl::Status StagePlanner::GoOn(StageWalk walk) {
  Note(walk);
  ASSIGN_OR_RETURN(ModelGraph stage, build_(walk.answers()));
  return Visit(std::move(walk), std::move(stage));
}

absl::Status StagePlanner::Visit(StageWalk walk, ModelGraph stage) {
  const std::shared_ptr<const StageEnd> end = stage.stage_end;
  if (++stages_ > kMaxPlannedStages) {
    return absl::InvalidArgumentError(absl::StrCat(
        end == nullptr ? decider_ : end->node, ": more than ",
        kMaxPlannedStages, " stages would have to be planned, because so many ",
        "values decide how the model runs; export it with fewer conditions, ",
        "loops and sizes that depend on computed values"));
  }
  StageWalk::Sizes bytes;
  for (const ModelPort& port : stage.outputs) {
    bytes[port.name] = port.shape.bytes(port.dtype);
  }
  RETURN_IF_ERROR(add_(walk.answers(), std::move(stage)));
  if (end == nullptr) return absl::OkStatus();
  decider_ = end->node;
  RETURN_IF_ERROR(walk.Receive(*end, bytes).status());
  switch (end->kind) {
    case StageEnd::Kind::kBranch:
      return Branch(std::move(walk), *end);
    case StageEnd::Kind::kCompute:
      RETURN_IF_ERROR(walk.AddResults(*end, end->call.most_rows).status());
      walk.TakeResults(end->call.most_rows);
      return GoOn(std::move(walk));
    case StageEnd::Kind::kLoop:
      return Begin(std::move(walk), *end);
    case StageEnd::Kind::kIteration:
      return Iterate(std::move(walk), *end);
  }
  return absl::OkStatus();
}

// Plans the branches that no earlier way has taken, and so each with one choice
// of the branches before it. If both are planned, goes on with the first.
absl::Status StagePlanner::Branch(StageWalk walk, const StageEnd& end) {
  bool went = false;
  for (const bool taken : {true, false}) {
    if (!planned_.insert(absl::StrCat(end.place, " ", taken)).second) continue;
    went = true;
    StageWalk way = walk.CountOn();
    way.TakeBranch(taken);
    RETURN_IF_ERROR(GoOn(std::move(way)));
  }
  if (went) return absl::OkStatus();
  walk.TakeBranch(true);
  return GoOn(std::move(walk));
}

absl::Status StagePlanner::Begin(StageWalk walk, const StageEnd& end) {
  RETURN_IF_ERROR(walk.AddStates(end).status());
  Note(walk);
  const int64_t trips = end.trips.value_or(std::numeric_limits<int64_t>::max());
  RETURN_IF_ERROR(walk.BeginLoop(end, trips, end.goes_on.value_or(true)));
  return GoOn(std::move(walk));
}

absl::Status StagePlanner::Iterate(StageWalk walk, const StageEnd& end) {
  const std::vector<TensorType> types = TypesOf(end.states);
  const bool same = types == walk.entered();
  // The same end may be reached through several branches of the body.
  std::string key =
      absl::StrCat(end.place, " ends ", same, " ",
                   absl::StrJoin(walk.before_loop(), ","), " with");
  for (const TensorType& type : types) {
    absl::StrAppend(&key, " ", type.shape.ToString());
  }
  RETURN_IF_ERROR(walk.AddStates(end).status());
  Note(walk);
  const uint64_t before = walk.store().bytes();
  RETURN_IF_ERROR(walk.AddRows(end).status());
  uint64_t& rows = loops_[end.place].rows;
  rows = std::max(rows, std::max(walk.store().bytes(), before) - before);
  if (!planned_.insert(std::move(key)).second) return absl::OkStatus();
  // Where results have as many rows as they can have, shapes may only seem to
  // change. Requests that do change them have the memory of the plan.
  const bool seems_same =
      same || (walk.has_results() && walk.trips() > kMaxGrowingTrips);
  if (seems_same || !end.goes_on.value_or(true)) {
    walk.LeaveLoop(end, seems_same ? walk.trips() : walk.iteration() + 1);
    return GoOn(std::move(walk));
  }
  if (walk.trips() > kMaxGrowingTrips) {
    const size_t state = FirstOther(types, walk.entered());
    return absl::InvalidArgumentError(absl::StrCat(
        end.node, ": carried value ", state, " is ",
        walk.entered()[state].shape.ToString(), " before an iteration and ",
        types[state].shape.ToString(), " after it; a loop that changes shapes ",
        "may have at most ", kMaxGrowingTrips, " iterations, since each needs ",
        "programs of its own, and this one may have ", walk.trips()));
  }
  RETURN_IF_ERROR(walk.EndIteration(end, true));
  return GoOn(std::move(walk));
}

}  // namespace gpupool::engine
