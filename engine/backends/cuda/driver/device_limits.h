// What a GPU can do, out of what the driver says about it: nothing here knows
// one card from another by its name. Needs no CUDA.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/device_backend.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine::cuda {

// Threads that the GPU runs at once: long sums are cut until they are as many.
int64_t ResidentThreads(const DeviceFacts& facts);

// Types of operands that the tensor cores multiply. All of them take float16
// from compute capability 7.0, the rest from 8.0.
struct TensorCores {
  bool tensor_float32 = true;
  bool bfloat16 = true;
};
TensorCores TensorCoresOf(const DeviceFacts& facts);

// The options without what the GPU does not have: products are computed in
// float32 instead of TF32.
KernelOptions Limited(KernelOptions options, const TensorCores& cores);

// One sentence for the log when an output of this type, compiled with these
// options, does not get what was asked for; empty when it does.
std::string MissingPrecision(const DeviceFacts& facts, DType type,
                             const KernelOptions& asked);

// Names the device in keys of kept plans: whatever may change which plan is the
// fastest, and the parts of a GPU that is shared out, which have its name but
// fewer multiprocessors and less memory. The driver is a part of it, since it
// compiles kernels.
std::string PlanDevice(const DeviceFacts& facts);

}  // namespace gpupool::engine::cuda
