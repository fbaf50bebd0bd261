// The weights of layers, and the distributions from which they are drawn at the
// beginning.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/graph/builder.h"
#include "engine/model/layers/persistent_spec.h"

namespace gpupool::v1 {
class Layer;
}

namespace gpupool::engine {

// Adds persistent values to a graph and lists them. Thread-safety: one thread
// at a time. Lives during the making of one graph.
class LayerWeights {
 public:
  // Both arguments must outlive the object.
  LayerWeights(GraphBuilder* builder, std::vector<PersistentSpec>* persistents)
      : builder_(builder), persistents_(persistents) {}

  // Adds a float32 value and records its initializer.
  absl::StatusOr<ValueId> Add(absl::string_view name, const Shape& shape,
                              MemoryClass memory_class,
                              const Initializer& initializer);

 private:
  GraphBuilder* builder_;
  std::vector<PersistentSpec>* persistents_;
};

// Checks initial_weight and initial_deviation. INVALID_ARGUMENT when the layer
// has no such weight, or when the deviation is out of range.
absl::Status CheckInitial(const v1::Layer& layer);

// Counts of numbers: `in` inputs make one output, and one input influences
// `out` outputs.
struct Fans {
  int64_t in = 1;
  int64_t out = 1;
};

// Return how the weight and the bias of a dense or conv2d layer begin. Without
// initial_weight both are U(-1/sqrt(fan in), 1/sqrt(fan in)), as in PyTorch.
Initializer InitialWeight(const v1::Layer& layer, const Fans& fans);
Initializer InitialBias(const v1::Layer& layer, const Fans& fans);

// Returns N(0, d^2), where d is the layer's initial_deviation, or else
// `deviation`.
Initializer InitialNormal(const v1::Layer& layer, double deviation);

}  // namespace gpupool::engine
