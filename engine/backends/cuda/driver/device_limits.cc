#include "engine/backends/cuda/driver/device_limits.h"

#include "absl/strings/str_cat.h"
#include "engine/runtime/module_architectures.h"

namespace gpupool::engine::cuda {
namespace {

// Ampere (https://docs.nvidia.com/cuda/cuda-c-programming-guide, "Tensor core
// input data types by compute capability").
constexpr int kSinceAmpere = 80;

}  // namespace

int64_t ResidentThreads(const DeviceFacts& facts) {
  return int64_t{facts.multiprocessors} *
         int64_t{facts.threads_per_multiprocessor};
}

TensorCores TensorCoresOf(const DeviceFacts& facts) {
  const int capability = ParseCapability(facts.compute_capability).value_or(0);
  const bool ampere = capability >= kSinceAmpere;
  return {.tensor_float32 = ampere, .bfloat16 = ampere};
}

KernelOptions Limited(KernelOptions options, const TensorCores& cores) {
  options.tensor_float32 &= cores.tensor_float32;
  return options;
}

std::string MissingPrecision(const DeviceFacts& facts, DType type,
                             const KernelOptions& asked) {
  const TensorCores cores = TensorCoresOf(facts);
  const std::string gpu = absl::StrCat(facts.name, " (compute capability ",
                                       facts.compute_capability, ")");
  if (type == DType::kFloat32 && asked.tensor_float32 &&
      !cores.tensor_float32) {
    return absl::StrCat(gpu,
                        " has no TF32: products with precision high are "
                        "computed in float32; fp16 is what its tensor cores "
                        "are for");
  }
  if (type == DType::kBFloat16 && !cores.bfloat16) {
    return absl::StrCat(gpu,
                        " has no tensor cores for bfloat16: precision bf16 is "
                        "right but slow there; fp16 is what its tensor cores "
                        "are for");
  }
  return "";
}

std::string PlanDevice(const DeviceFacts& facts) {
  return absl::StrCat(facts.name, " ", facts.compute_capability, " ",
                      facts.multiprocessors, " multiprocessors ",
                      facts.total_bytes, " bytes driver ", facts.driver_version,
                      " CUDA ", facts.cuda_version);
}

}  // namespace gpupool::engine::cuda
