// The requests of an eager framework to an allocator when it runs a transformer
// of 12 layers of width 768: weights that stay, and activations that are freed,
// for inference and for training steps, which keep activations for the backward
// pass. Sizes are fixed or drawn per request or step.
#pragma once

#include <cstdint>
#include <vector>

namespace gpupool::engine {

// Allocates tensor `id` with `bytes` > 0, or frees it with 0.
struct TraceEvent {
  uint32_t id = 0;
  uint64_t bytes = 0;
};

struct TraceOptions {
  bool training = false;
  bool variable_shapes = false;  // batch 1..32, length 64..512
  int rounds = 0;                // requests or steps
  uint32_t seed = 0;
};

std::vector<TraceEvent> TransformerTrace(const TraceOptions& options);

// Returns the largest number of bytes that are live at the same time.
uint64_t PeakBytes(const std::vector<TraceEvent>& trace);

}  // namespace gpupool::engine
