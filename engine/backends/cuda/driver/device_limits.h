// Abilities of a GPU, computed from the driver's facts. No card is recognised
// by its name. Needs no CUDA.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/device_backend.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine::cuda {

// Returns the number of threads that the GPU runs at once. Long sums are cut
// into about as many parts.
int64_t ResidentThreads(const DeviceFacts& facts);

// Operand types that the tensor cores multiply. All tensor cores take float16,
// from compute capability 7.0. The other types need 8.0.
struct TensorCores {
  bool tensor_float32 = true;
  bool bfloat16 = true;
};
TensorCores TensorCoresOf(const DeviceFacts& facts);

// Returns the options without TF32 when the tensor cores lack it. Products are
// then computed in float32.
KernelOptions Limited(KernelOptions options, const TensorCores& cores);

// Returns a sentence for the log when the GPU has no tensor cores for outputs
// of this type with the options `asked`. Returns an empty text otherwise.
std::string MissingPrecision(const DeviceFacts& facts, DType type,
                             const KernelOptions& asked);

// Returns the device's name in keys of kept plans. It contains what the fastest
// plan may depend on. The driver is a part of it, since it compiles kernels. So
// are the multiprocessors and the bytes: a slice of a shared GPU has the GPU's
// name, but fewer of both.
std::string PlanDevice(const DeviceFacts& facts);

}  // namespace gpupool::engine::cuda
