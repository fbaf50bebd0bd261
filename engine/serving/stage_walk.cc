#include "engine/serving/stage_walk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

template <typename... Parts>
absl::Status Refuse(const StageEnd& end, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(end.node, ": ", parts...));
}

uint64_t BytesOf(const TensorType& type) {
  return type.shape.bytes(type.dtype);
}

// Most bytes of the rows of all iterations.
constexpr uint64_t kMostRowBytes = uint64_t{1} << 44;

}  // namespace

int64_t PlannedTrips(const StageEnd& loop) {
  if (!loop.trips.has_value() || *loop.trips > kMostTrips) {
    return kMaxComputedTrips;
  }
  return std::max<int64_t>(*loop.trips, 0);
}

StageWalk StageWalk::CountOn() const {
  StageWalk copy(store_.CountOn());
  copy.answers_ = answers_;
  copy.loops_ = loops_;
  return copy;
}

std::vector<std::string> StageWalk::OpenLoops() const {
  std::vector<std::string> places;
  for (const Loop& loop : loops_) places.push_back(loop.place);
  return places;
}

void StageWalk::TakeResults(int64_t rows) {
  answers_.push_back(rows);
  for (Loop& loop : loops_) loop.has_results = true;
}

absl::StatusOr<std::vector<std::string>> StageWalk::Receive(
    const StageEnd& end, const Sizes& bytes) {
  std::vector<std::string> kept = end.kept;
  // The results of outer loops are stacked until these loops end, whatever the
  // stage reads.
  for (const Loop& loop : loops_) {
    for (size_t i = 0; i < loop.rows.size(); ++i) {
      kept.push_back(StageInputName(loop.place, "row", i));
    }
  }
  store_.Keep(kept);
  std::vector<std::string> made;
  for (const std::string& name : end.kept) {
    const auto found = bytes.find(name);
    if (found == bytes.end()) continue;
    RETURN_IF_ERROR(store_.Add(name, found->second));
    made.push_back(name);
  }
  return made;
}

absl::StatusOr<std::vector<std::string>> StageWalk::AddResults(
    const StageEnd& end, int64_t rows) {
  std::vector<std::string> names;
  for (const TensorType& type : end.call.types(rows)) {
    names.push_back(StageInputName(end.place, "result", names.size()));
    RETURN_IF_ERROR(store_.Add(names.back(), BytesOf(type)));
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> StageWalk::AddStates(
    const StageEnd& end) {
  std::vector<std::string> names;
  for (const StageTensor& state : end.states) {
    names.push_back(StageInputName(end.place, "state", names.size()));
    RETURN_IF_ERROR(store_.Add(names.back(), BytesOf(state.type)));
  }
  return names;
}

absl::StatusOr<std::vector<StageWalk::RowPlace>> StageWalk::AddRows(
    const StageEnd& end) {
  Loop& loop = loops_.back();
  std::vector<RowPlace> places;
  for (size_t i = 0; i < end.rows.size(); ++i) {
    const TensorType& type = end.rows[i].type;
    const std::string name = StageInputName(end.place, "row", i);
    const uint64_t bytes = BytesOf(type);
    const auto trips = static_cast<uint64_t>(loop.trips);
    if (loop.iteration == 0) {
      // The division cannot overflow. A loop that was entered has at least one
      // trip.
      if (bytes > kMostRowBytes / trips) {
        return Refuse(end, "scan output ", i, " has ", bytes, " bytes in each ",
                      "of up to ", trips, " iterations, more than any device ",
                      "has");
      }
      loop.rows.push_back(type);
      RETURN_IF_ERROR(store_.Add(name, bytes * trips));
    } else if (loop.rows[i] != type) {
      return Refuse(end, "scan output ", i, " has shape ",
                    type.shape.ToString(), " in iteration ", loop.iteration,
                    " and ", loop.rows[i].shape.ToString(), " in the first; ",
                    "rows that are stacked must have one shape");
    }
    // Iterations write one after the other into the space that the first one
    // reserved.
    places.push_back({name, bytes * static_cast<uint64_t>(loop.iteration)});
  }
  return places;
}

absl::Status StageWalk::Enter(const StageEnd& end) {
  Loop& loop = loops_.back();
  // The answers of earlier iterations are dropped. An iteration with the same
  // types then has the same key and runs the same program.
  answers_ = loop.before;
  answers_.push_back(kEnterLoop);
  loop.entered.clear();
  for (const StageTensor& state : end.states) {
    loop.entered.push_back(state.type);
    AppendType(state.type, answers_);
  }
  return store_.Add(StageInputName(end.place, "iteration"), sizeof(int64_t));
}

absl::Status StageWalk::BeginLoop(const StageEnd& end, int64_t trips,
                                  bool goes_on) {
  Loop& loop = loops_.emplace_back();
  loop.place = end.place;
  loop.before = answers_;
  const int64_t planned = PlannedTrips(end);
  // Without this flag, a loop that ends at its own trip count would look like
  // one that was cut off.
  loop.limited = trips <= planned;
  loop.trips = std::min(trips, planned);
  if (loop.trips > 0 && goes_on) return Enter(end);
  LeaveLoop(end, 0);
  return absl::OkStatus();
}

absl::Status StageWalk::EndIteration(const StageEnd& end, bool goes_on) {
  Loop& loop = loops_.back();
  ++loop.iteration;
  if (goes_on && loop.iteration < loop.trips) return Enter(end);
  if (goes_on && !loop.limited) {
    return absl::ResourceExhaustedError(absl::StrCat(
        end.node, ": the loop goes on after ",
        Counted(static_cast<uint64_t>(loop.trips), "iteration"),
        ", the most for a loop whose trip count the file does not have; ",
        "export the model with a trip count"));
  }
  LeaveLoop(end, loop.iteration);
  return absl::OkStatus();
}

void StageWalk::LeaveLoop(const StageEnd& end, int64_t iterations) {
  const Loop loop = std::move(loops_.back());
  loops_.pop_back();
  answers_ = loop.before;
  answers_.push_back(kLeaveLoop);
  // Without rows, one program serves every number of iterations.
  answers_.push_back(loop.rows.empty() ? 0 : iterations);
  for (const StageTensor& state : end.states) {
    AppendType(state.type, answers_);
  }
  for (const TensorType& row : loop.rows) AppendType(row, answers_);
}

}  // namespace gpupool::engine
