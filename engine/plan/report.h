// The device memory that programs will take, by class. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine {

// A block that lives as long as the programs that use it: constants, derived
// values, packed weights. Programs with the same key share one block; a block
// with an empty key is not shared.
struct ResidentItem {
  std::string key;
  uint64_t bytes = 0;  // not rounded
};

// The needs of one program, without the weights that it shares.
struct ProgramBytes {
  uint64_t arena = 0;  // multiple of the alignment
  // The largest sum of bytes, workspaces included, that live at one time: the
  // arena of a perfect plan.
  uint64_t arena_lower_bound = 0;
  std::vector<ResidentItem> residents;
  // Bytes that live at the moment of the arena's peak:
  uint64_t gradients = 0;
  uint64_t activations = 0;  // inputs and outputs included
  // Scratch of kernels, and weights that load nodes make for each other.
  uint64_t workspace = 0;
};

// The blocks of the weight store.
struct PersistentBytes {
  uint64_t model = 0;      // weights and state
  uint64_t optimizer = 0;  // moments; 0 without training
};

// The fields of v1::PlannedBytes.
struct PlannedBytes {
  uint64_t weights = 0;
  uint64_t optimizer = 0;
  uint64_t gradients = 0;
  uint64_t activations = 0;
  uint64_t workspace = 0;
  uint64_t peak = 0;
  // Training: the landing of the next batch; part of the peak.
  uint64_t next_batch = 0;
};

// Returns the bytes of programs that share one weight store and run in turn in
// one arena, which is as large as their largest. `peak` is exactly what the
// device's allocator reports as held when all of them are loaded. The classes
// within the arena are those of the program with the largest arena.
PlannedBytes ReportBytes(const PersistentBytes& persistent,
                         absl::Span<const ProgramBytes> programs);

// Returns the bytes of all residents, rounded to the alignment, each key
// counted once.
uint64_t ResidentBytes(absl::Span<const ProgramBytes> programs);

// Returns the arena in which each of them can run.
uint64_t SharedArenaBytes(absl::Span<const ProgramBytes> programs);

}  // namespace gpupool::engine
