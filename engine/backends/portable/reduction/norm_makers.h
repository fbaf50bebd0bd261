// The parts of the norm family. Host only.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

KernelOr MakeBatchNormUpdate(const CompileRequest& request,
                             const PortableContext& context);
KernelOr MakeFoldBatchNorm(const CompileRequest& request,
                           const PortableContext& context);

// Variances [channels] in float32 as 1 / sqrt(variance + epsilon), or `back`.
// Input 0 to output 0, which may be the same memory. For libraries that keep
// the other form.
struct SpreadOptions {
  int64_t channels = 0;
  double epsilon = 0;
  bool back = false;
};
std::unique_ptr<Kernel> MakeSpread(const SpreadOptions& options,
                                   const PortableContext& context);

}  // namespace gpupool::engine::portable
