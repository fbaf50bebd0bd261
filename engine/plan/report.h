// What programs will take of a device's memory, by class. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gpupool::engine {

// Bytes that live as long as the programs that use them: constants, derived
// values, packed weights. Programs with the same key share one block; an
// empty key is shared with nobody.
struct ResidentItem {
  std::string key;
  uint64_t bytes = 0;  // not rounded
};

// One program's own needs, beside the weights that it shares.
struct ProgramBytes {
  uint64_t arena = 0;  // multiple of the alignment
  // The largest sum of bytes that live at one time, workspaces included: what
  // a perfect plan would make of the arena.
  uint64_t arena_lower_bound = 0;
  std::vector<ResidentItem> residents;
  // Living at the moment of the arena's peak:
  uint64_t gradients = 0;
  uint64_t activations = 0;  // inputs and outputs included
  uint64_t workspace = 0;    // of kernels, and values on their way at load
};

// Blocks of the weight store.
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
  uint64_t next_batch = 0;  // training: where it lands; in the peak
};

// For programs that share one weight store and run in turn in one arena as
// large as the largest of theirs. `peak` is what the device's allocator
// reports as held once all of them are loaded, to the byte; the classes of
// the arena are those of the program with the largest one.
PlannedBytes ReportBytes(const PersistentBytes& persistent,
                         absl::Span<const ProgramBytes> programs);

// Bytes of all residents, rounded to the alignment, each key counted once.
uint64_t ResidentBytes(absl::Span<const ProgramBytes> programs);

// The arena that all of them can run in.
uint64_t SharedArenaBytes(absl::Span<const ProgramBytes> programs);

}  // namespace gpupool::engine
