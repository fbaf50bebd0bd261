#include "scheduler/state/array_limit.h"

#include "absl/strings/str_cat.h"
#include "scheduler/state/counted.h"

namespace gpupool::scheduler {

bool ArrayTasks::HasPlace() const {
  return at_once == 0 || live.size() + queued.size() < at_once;
}

bool ArrayTasks::MayAddLive() const {
  return at_once == 0 || live.size() < at_once;
}

std::optional<JobId> ArrayTasks::ToQueue() const {
  if (standing.empty() || !HasPlace()) return std::nullopt;
  return *standing.begin();
}

std::optional<JobId> ArrayTasks::ToStandAside() const {
  if (at_once == 0 || queued.empty() ||
      live.size() + queued.size() <= at_once) {
    return std::nullopt;
  }
  return *queued.rbegin();
}

std::string AtOnceText(JobId id, const ArrayTasks& tasks) {
  const size_t live = tasks.live.size();
  const size_t next = tasks.queued.size();
  return absl::StrCat(
      "array ", id.value(), " runs at most ", Counted(tasks.at_once, "task"),
      " at once (max_at_once): ", live, live == 1 ? " runs" : " run",
      next == 0   ? ""
      : next == 1 ? " and 1 is next"
                  : absl::StrCat(" and ", next, " are next"));
}

}  // namespace gpupool::scheduler
