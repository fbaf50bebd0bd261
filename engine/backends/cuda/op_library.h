// The library of NVIDIA's that may have a kernel for an op: the column
// `library` of the op table. Pure.
#pragma once

#include <array>
#include <cstdint>

#include "engine/graph/ops.h"

namespace gpupool::engine::cuda {

enum class Library : uint8_t {
  kNone,
  kMatMul,       // cuBLASLt
  kConvolution,  // cuDNN
  kAttention,    // cuDNN, or products of cuBLASLt
  kNorm,         // cuDNN
  kAllReduce,    // NCCL; no kernel of our own reaches the other ranks
};

inline constexpr std::array<Library, kOpCount> kLibraries = {
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, type_rule, layout,   \
                   in_place, traits, cost, autocast, gradient, reference, cpu, \
                   cpu_types, portable, library)                               \
  Library::library,
#include "engine/graph/op_table.inc"
};

inline Library LibraryOf(Op op) { return kLibraries[static_cast<size_t>(op)]; }

}  // namespace gpupool::engine::cuda
