#include "engine/serving/program_cache.h"

#include <algorithm>
#include <utility>

namespace gpupool::engine {

ProgramCache::Entry* ProgramCache::Find(const ProgramKey& key) {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->key != key) continue;
    entry->last_use = ++uses_;
    return entry.get();
  }
  return nullptr;
}

ProgramCache::Entry* ProgramCache::Add(Entry entry) {
  MakeRoom();
  entry.last_use = ++uses_;
  entries_.push_back(std::make_unique<Entry>(std::move(entry)));
  return entries_.back().get();
}

void ProgramCache::MakeRoom() {
  while (entries_.size() >= capacity_) RemoveOldest();
}

bool ProgramCache::RemoveOldest() {
  // Linear, because a cache has at most v1::MAX_SERVED_PROGRAMS entries.
  const auto oldest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
  if (oldest == entries_.end()) return false;
  entries_.erase(oldest);
  ++evictions_;
  return true;
}

}  // namespace gpupool::engine
