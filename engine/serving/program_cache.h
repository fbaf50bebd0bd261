// The programs of one loaded model, by what they are made for: as many as are
// wanted, the one that was not used for longest goes first.
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
    std::vector<Shape> outputs;  // whole
    std::unique_ptr<Executor> executor;
    uint64_t last_use = 0;
  };

  // capacity >= 1.
  explicit ProgramCache(size_t capacity) : capacity_(capacity) {}

  // Null when there is none; else it is the one used last. Valid until the
  // next Add or RemoveOldest.
  Entry* Find(const ProgramKey& key);
  // Makes room first. `key` is not in the cache.
  Entry* Add(Entry entry);
  // Removes programs until one more has room.
  void MakeRoom();
  // False when the cache is empty.
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
