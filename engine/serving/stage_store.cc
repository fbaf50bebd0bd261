#include "engine/serving/stage_store.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

StageStore StageStore::CountOn() const {
  StageStore copy;
  for (const auto& [name, tensor] : tensors_) {
    // The copy has sizes only. It plans what a run would need.
    copy.tensors_[name].bytes = tensor.bytes;
  }
  copy.bytes_ = bytes_;
  copy.peak_ = bytes_;
  return copy;
}

absl::Status StageStore::Add(const std::string& name, uint64_t bytes) {
  Remove(name);
  Tensor tensor{.bytes = bytes};
  if (allocator_ != nullptr) {
    ASSIGN_OR_RETURN(tensor.memory,
                     allocator_->Allocate(bytes, {*holder_, "passed on"}));
  }
  tensors_[name] = std::move(tensor);
  // The allocator rounds sizes up, so the sum counts what it really takes.
  bytes_ += AlignUp(bytes);
  peak_ = std::max(peak_, bytes_);
  return absl::OkStatus();
}

uint64_t StageStore::TakePeak() { return std::exchange(peak_, bytes_); }

std::byte* StageStore::data(absl::string_view name) const {
  const auto found = tensors_.find(name);
  GPUPOOL_CHECK(found != tensors_.end());
  return found->second.memory.data();
}

uint64_t StageStore::size(absl::string_view name) const {
  const auto found = tensors_.find(name);
  GPUPOOL_CHECK(found != tensors_.end());
  return found->second.bytes;
}

void StageStore::Remove(absl::string_view name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return;
  bytes_ -= AlignUp(found->second.bytes);
  tensors_.erase(found);
}

void StageStore::Keep(const std::vector<std::string>& names) {
  const absl::flat_hash_set<absl::string_view> kept(names.begin(), names.end());
  std::vector<std::string> dead;
  for (const auto& [name, tensor] : tensors_) {
    if (!kept.contains(name)) dead.push_back(name);
  }
  // Removal would invalidate the iterator of the loop above.
  for (const std::string& name : dead) Remove(name);
}

}  // namespace gpupool::engine
