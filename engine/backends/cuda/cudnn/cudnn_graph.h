// A graph of a few tensor operations for which cuDNN finds a kernel. Its text
// holds everything that the choice depends on.
//
// Tensors are numbered from 1 in the order in which they are added. A tensor
// that is not virtual gets an address for each run (cudnn_plan.h). The first
// error is kept until Finish.
//
// Thread-safety: one thread at a time. The functions must outlive the graph.
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

// The window of a convolution, by spatial axis.
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
  // Adds a value of the engine's graph as it lies in memory. Weights are always
  // row-major.
  Id AddValue(const Value& value);
  // Adds a row-major tensor that is never stored in memory.
  Id AddVirtual(cudnnDataType_t type, std::vector<int64_t> dims);
  // Adds one float32 number of rank `rank`. The host gives it with each run.
  Id AddNumber(int rank);

  void Convolve(Id x, Id w, Id y, const CudnnWindow& window);
  void ConvolveInputGrad(Id dy, Id w, Id dx, const CudnnWindow& window);
  void ConvolveWeightGrad(Id dy, Id x, Id dw, const CudnnWindow& window);
  // Adds y = mode(x) or y = mode(x, b). `axis` is for GEN_INDEX only.
  void Pointwise(cudnnPointwiseMode_t mode, Id x, Id b, Id y,
                 int64_t axis = -1);
  // Adds y = choose ? x : b.
  void Select(Id x, Id b, Id choose, Id y);
  // Adds a copy of the same numbers by y's dimensions and strides.
  void Reshape(Id x, Id y);
  void MatMul(Id a, Id b, Id c);
  void Reduce(cudnnReduceTensorOp_t operation, Id x, Id y);
  // A tensor's part in an operation. Tensor 0 is left out.
  struct Operand {
    cudnnBackendAttributeName_t name;
    Id tensor;
  };
  // Add batch norm in training and its gradient. The operands name each tensor.
  void BatchNorm(absl::Span<const Operand> operands);
  void BatchNormGrad(absl::Span<const Operand> operands);

  // Returns the finished graph and uses up this object. `handle` may be null
  // (cudnn_plan.h).
  absl::StatusOr<CudnnDescriptor> Finish(cudnnHandle_t handle);
  const std::string& text() const { return text_; }

 private:
  cudnnBackendDescriptor_t tensor(Id id) const {
    return tensors_[static_cast<size_t>(id - 1)].get();
  }
  // Attribute names of one kind of convolution.
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
  std::vector<CudnnDescriptor> parts_;  // operations refer to these
  std::vector<CudnnDescriptor> operations_;
};

// Returns whether the type has a counterpart in cuDNN, which CudnnTypeOf
// returns.
bool HasCudnnType(DType type);
cudnnDataType_t CudnnTypeOf(DType type);

}  // namespace gpupool::engine::cuda
