// The weights and states of a model's graph, and their first contents. Plain
// values.
#pragma once

#include <cstdint>
#include <string>

#include "engine/graph/graph.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// The first contents of a persistent value.
struct Initializer {
  enum class Kind : uint8_t {
    kConstant,  // every element is `value`
    kUniform,   // U(-bound, bound)
    kNormal,    // N(0, deviation^2)
    kStored,    // ModelSource::ReadStored reads it
  };
  Kind kind = Kind::kConstant;
  double value = 0;
  double bound = 0;
  double deviation = 0;
};

// A named weight or state tensor of a program.
struct PersistentSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  // kWeight: trainable. kState: running statistics and input scaling.
  // kOptimizer: "<weight>/momentum", "<weight>/adam.m", "<weight>/adam.v".
  MemoryClass memory_class = MemoryClass::kWeight;
  Initializer initializer;
  // Whether a weight looks like a constant table of the model, which is only
  // trained when the job names it.
  bool buffer = false;

  bool is_parameter() const {
    return memory_class == MemoryClass::kWeight && !buffer;
  }
};

}  // namespace gpupool::engine
