#include "engine/collective/abort_switch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpupool::engine {

void AbortSwitch::Abort(absl::string_view reason) {
  const absl::MutexLock lock(&mutex_);
  if (aborted_) return;
  aborted_ = true;
  reason_ = std::string(reason);
  // Listeners run under the lock, so Remove can promise that none runs later.
  for (const auto& [id, listener] : listeners_) listener(reason_);
}

absl::Status AbortSwitch::status() const {
  const absl::MutexLock lock(&mutex_);
  if (!aborted_) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("the group was aborted: ", reason_));
}

uint64_t AbortSwitch::Add(Listener listener) {
  const absl::MutexLock lock(&mutex_);
  // Added as well, so that Remove works in either case.
  if (aborted_) listener(reason_);
  listeners_.emplace_back(next_id_, std::move(listener));
  return next_id_++;
}

void AbortSwitch::Remove(uint64_t id) {
  const absl::MutexLock lock(&mutex_);
  listeners_.erase(
      std::remove_if(listeners_.begin(), listeners_.end(),
                     [id](const auto& entry) { return entry.first == id; }),
      listeners_.end());
}

}  // namespace gpupool::engine
