#include "benchmarks/bare_copy.h"

#include <cuda_runtime_api.h>

#include "engine/backends/cuda/driver/fault_class.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::testing {
namespace {

absl::Status StatusOf(cudaError_t code, const char* what) {
  return cuda::FaultStatus(code, cudaGetErrorName(code),
                           cudaGetErrorString(code), what);
}

class CudaCopy : public BareCopy {
 public:
  explicit CudaCopy(uint64_t bytes) : bytes_(bytes) {}
  ~CudaCopy() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cudaFree(device_);
    cudaFreeHost(host_);
  }
  CudaCopy(const CudaCopy&) = delete;
  CudaCopy& operator=(const CudaCopy&) = delete;

  absl::Status Open() {
    RETURN_IF_ERROR(StatusOf(cudaMallocHost(&host_, bytes_), "pinned memory"));
    RETURN_IF_ERROR(StatusOf(cudaMalloc(&device_, bytes_), "device memory"));
    return StatusOf(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                    "making a stream");
  }
  absl::Status ToDevice() override {
    return Copy(device_, host_, cudaMemcpyHostToDevice);
  }
  absl::Status FromDevice() override {
    return Copy(host_, device_, cudaMemcpyDeviceToHost);
  }

 private:
  absl::Status Copy(void* to, const void* from, cudaMemcpyKind kind) {
    RETURN_IF_ERROR(
        StatusOf(cudaMemcpyAsync(to, from, bytes_, kind, stream_), "copying"));
    return StatusOf(cudaStreamSynchronize(stream_), "waiting for a copy");
  }

  const uint64_t bytes_;
  void* host_ = nullptr;
  void* device_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BareCopy>> BareCopy::Create(uint64_t bytes) {
  auto copy = std::make_unique<CudaCopy>(bytes);
  RETURN_IF_ERROR(copy->Open());
  return copy;
}

}  // namespace gpupool::engine::testing
