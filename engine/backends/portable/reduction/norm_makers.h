// Makers of parts of the norm family. Host only.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

KernelOr MakeBatchNormUpdate(const CompileRequest& request,
                             const PortableContext& context);
KernelOr MakeFoldBatchNorm(const CompileRequest& request,
                           const PortableContext& context);

// Options of MakeSpread, whose kernel converts float32 variances [channels] to
// 1 / sqrt(variance + epsilon), or with `back` the other way. It reads input 0
// and writes output 0, which may be the same memory. Libraries keep the
// converted form.
struct SpreadOptions {
  int64_t channels = 0;
  double epsilon = 0;
  bool back = false;
};
std::unique_ptr<Kernel> MakeSpread(const SpreadOptions& options,
                                   const PortableContext& context);

}  // namespace gpupool::engine::portable
