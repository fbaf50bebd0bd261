// The safetensors format (github.com/huggingface/safetensors, README, section
// "Format"):
//   8 bytes   N: length of the header, little-endian
//   N bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3],
//             "data_offsets": [begin, end]}, ..., "__metadata__": {...}}
//   the rest  tensor bytes, row-major little-endian; offsets count from here,
//             without holes or overlap
// Pure functions over bytes in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct TensorFacts {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;

  uint64_t bytes() const { return shape.bytes(dtype); }
};

// Returns the bytes before the tensor bytes, which follow in the given order.
// Names must be unique. The length of the result is a multiple of 8.
std::string SafetensorsHeader(const std::vector<TensorFacts>& tensors);

struct TensorView {
  TensorFacts facts;
  absl::string_view bytes;  // may have any alignment
};

// Returns the tensors of a file in the order of their bytes. `file` must
// outlive the views. INVALID_ARGUMENT names the wrong tensor or field; nothing
// in the file is trusted.
absl::StatusOr<std::vector<TensorView>> ParseSafetensors(
    absl::string_view file);

}  // namespace gpupool::engine
