// A few operations on tensors, for cuDNN to find a kernel for, and a text that
// says all that matters for the choice.
//
// Tensors are numbered from 1 in the order in which they are added; those that
// are not virtual get an address for each run (cudnn_plan.h). Errors stay until
// Finish.
// Thread-safety: one thread at a time. The functions must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/backends/cuda/cudnn/cudnn_descriptor.h"
#include "engine/graph/graph.h"

namespace gpupool::engine::cuda {

struct CudnnTensor {
  enum class Kind { kMemory, kVirtual, kByValue };
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> dims, strides;  // strides in elements
  Kind kind = Kind::kMemory;
};

// Of a convolution, by spatial axis.
struct CudnnWindow {
  std::vector<int64_t> before, behind;  // padding
  std::vector<int64_t> strides, dilations;
};

class CudnnGraph {
 public:
  using Id = int64_t;

  explicit CudnnGraph(const CudnnFunctions* functions)
      : functions_(functions) {}

  Id Add(const CudnnTensor& tensor);
  // A value of the engine's graph as it lies in memory; weights are always
  // row-major.
  Id AddValue(const Value& value);
  // A tensor that no memory ever holds, row-major.
  Id AddVirtual(cudnnDataType_t type, std::vector<int64_t> dims);
  // One float32 number that the host gives with each run, of rank `rank`.
  Id AddNumber(int rank);

  void Convolve(Id x, Id w, Id y, const CudnnWindow& window);
  void ConvolveInputGrad(Id dy, Id w, Id dx, const CudnnWindow& window);
  void ConvolveWeightGrad(Id dy, Id x, Id dw, const CudnnWindow& window);
  // y = mode(x) or mode(x, b); `axis` of GEN_INDEX.
  void Pointwise(cudnnPointwiseMode_t mode, Id x, Id b, Id y,
                 int64_t axis = -1);
  // y = choose ? x : b
  void Select(Id x, Id b, Id choose, Id y);
  // The same numbers by y's dimensions and strides.
  void Reshape(Id x, Id y);
  void MatMul(Id a, Id b, Id c);
  void Reduce(cudnnReduceTensorOp_t operation, Id x, Id y);
  // A tensor's part in an operation; tensor 0 is left out.
  struct Operand {
    cudnnBackendAttributeName_t name;
    Id tensor;
  };
  // Batch norm in training and its gradient, in which each tensor has a name.
  void BatchNorm(absl::Span<const Operand> operands);
  void BatchNormGrad(absl::Span<const Operand> operands);

  // `handle` may be null (cudnn_plan.h). The graph is used up.
  absl::StatusOr<CudnnDescriptor> Finish(cudnnHandle_t handle);
  const std::string& text() const { return text_; }

 private:
  cudnnBackendDescriptor_t tensor(Id id) const {
    return tensors_[static_cast<size_t>(id - 1)].get();
  }
  // What the kinds of convolutions call their parts.
  struct ConvolutionNames {
    cudnnBackendDescriptorType_t type;
    absl::string_view name;
    cudnnBackendAttributeName_t a, b, result, window, alpha, beta;
  };
  void Convolve(const ConvolutionNames& names, Id a, Id b, Id result,
                const CudnnWindow& window);
  CudnnDescriptor Window(const CudnnWindow& window);
  void Apply(cudnnPointwiseMode_t mode, absl::Span<const Operand> operands,
             int64_t axis);
  CudnnDescriptor Begin(cudnnBackendDescriptorType_t type,
                        absl::Span<const Operand> operands);
  void Keep(CudnnDescriptor operation, absl::string_view name);
  void Keep(CudnnDescriptor operation, absl::string_view name,
            cudnnBackendAttributeName_t attribute, CudnnDescriptor part);
  void Note(const absl::Status& status) {
    if (error_.ok()) error_ = status;
  }

  const CudnnFunctions* functions_;
  absl::Status error_;
  std::string text_;
  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> parts_;  // that operations refer to
  std::vector<CudnnDescriptor> operations_;
};

// nullopt-like: false for types that cuDNN has no counterpart of here.
bool HasCudnnType(DType type);
cudnnDataType_t CudnnTypeOf(DType type);

}  // namespace gpupool::engine::cuda
