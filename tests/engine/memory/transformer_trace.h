// What an eager framework asks of an allocator when it runs a transformer of
// 12 layers of width 768: weights that stay, and activations that come and
// go, for inference and for training steps that keep them for the backward
// pass. Sizes are fixed or drawn per request or step.
#pragma once

#include <cstdint>
#include <vector>

namespace gpupool::engine {

// Tensor `id` is allocated with `bytes` > 0, or freed with 0.
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

// The most bytes that live at once.
uint64_t PeakBytes(const std::vector<TraceEvent>& trace);

}  // namespace gpupool::engine
