// A cache of the programs of one loaded model, by batch and sizes. When it is
// full, the least recently used program is removed.
//
// Belongs to one compute thread. Owns the programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runtime/executor.h"
#include "engine/serving/inference_programs.h"

namespace gpupool::engine {

class ProgramCache {
 public:
  struct Entry {
    ProgramKey key;
    std::vector<Shape> outputs;  // whole shapes, batch included
    std::shared_ptr<const StageEnd> stage_end;
    std::unique_ptr<Executor> executor;
    uint64_t last_use = 0;
  };

  // Makes an empty cache; capacity must be at least 1.
  explicit ProgramCache(size_t capacity) : capacity_(capacity) {}

  // Returns the entry, which becomes the most recently used; null when there is
  // none. Valid until the next Add or RemoveOldest.
  Entry* Find(const ProgramKey& key);
  // Adds an entry and removes old ones if necessary. `key` must not be in the
  // cache.
  Entry* Add(Entry entry);
  // Removes programs until there is space for one more.
  void MakeRoom();
  // Removes the least recently used program. Returns false when the cache is
  // empty.
  bool RemoveOldest();

  size_t size() const { return entries_.size(); }
  size_t capacity() const { return capacity_; }
  uint64_t evictions() const { return evictions_; }

 private:
  const size_t capacity_;
  std::vector<std::unique_ptr<Entry>> entries_;
  uint64_t uses_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace gpupool::engine
