#include "engine/backends/cuda/cudnn/cudnn_graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/strides.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// Alignment in bytes that the engine's allocator and plans guarantee for every
// value.
constexpr int64_t kTensorAlignment = 64;

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

}  // namespace

bool HasCudnnType(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat16 ||
         type == DType::kBFloat16;
}

cudnnDataType_t CudnnTypeOf(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    default:
      GPUPOOL_CHECK(type == DType::kBFloat16);
      return CUDNN_DATA_BFLOAT16;
  }
}

CudnnGraph::Id CudnnGraph::Add(const CudnnTensor& tensor) {
  CudnnDescriptor made(functions_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  // 0 stands for an operand that is missing.
  const auto id = static_cast<Id>(tensors_.size()) + 1;
  made.SetInteger(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  made.SetType(CUDNN_ATTR_TENSOR_DATA_TYPE, tensor.type);
  made.SetIntegers(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims);
  made.SetIntegers(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides);
  made.SetInteger(
      CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
      // A number by value is one float in host memory.
      tensor.kind == CudnnTensor::Kind::kByValue ? 4 : kTensorAlignment);
  made.SetFlag(CUDNN_ATTR_TENSOR_IS_VIRTUAL,
               tensor.kind == CudnnTensor::Kind::kVirtual);
  made.SetFlag(CUDNN_ATTR_TENSOR_IS_BY_VALUE,
               tensor.kind == CudnnTensor::Kind::kByValue);
  Note(made.Finalize("describing a tensor"));
  tensors_.push_back(std::move(made));
  // The text identifies the graph in the plan cache, so it must list all that
  // decides a plan.
  absl::StrAppend(&text_, "t", static_cast<int>(tensor.type), "k",
                  static_cast<int>(tensor.kind), "[",
                  absl::StrJoin(tensor.dims, ","), "/",
                  absl::StrJoin(tensor.strides, ","), "] ");
  return id;
}

CudnnGraph::Id CudnnGraph::AddValue(const Value& value) {
  CudnnTensor tensor;
  tensor.type = CudnnTypeOf(value.dtype);
  tensor.dims.assign(value.shape.dims().begin(), value.shape.dims().end());
  tensor.strides = MemoryStrides(value.shape, value.layout);
  return Add(tensor);
}

CudnnGraph::Id CudnnGraph::AddVirtual(cudnnDataType_t type,
                                      std::vector<int64_t> dims) {
  CudnnTensor tensor;
  tensor.type = type;
  tensor.strides = RowMajorStrides(dims);
  tensor.dims = std::move(dims);
  tensor.kind = CudnnTensor::Kind::kVirtual;
  return Add(tensor);
}

CudnnGraph::Id CudnnGraph::AddNumber(int rank) {
  CudnnTensor tensor;
  // All axes have size 1, so the number broadcasts.
  tensor.dims.assign(static_cast<size_t>(rank), 1);
  tensor.strides = tensor.dims;
  tensor.kind = CudnnTensor::Kind::kByValue;
  return Add(tensor);
}

// Begins an operation with its tensors and adds them to the text in order.
CudnnDescriptor CudnnGraph::Begin(cudnnBackendDescriptorType_t type,
                                  absl::Span<const Operand> operands) {
  CudnnDescriptor made(functions_, type);
  absl::StrAppend(&text_, "op", static_cast<int>(type), "(");
  for (const Operand& operand : operands) {
    // An optional operand that is missing has no attribute.
    if (operand.tensor == 0) continue;
    made.SetDescriptor(operand.name, tensor(operand.tensor));
    absl::StrAppend(&text_, static_cast<int>(operand.name), "=", operand.tensor,
                    ",");
  }
  absl::StrAppend(&text_, ") ");
  return made;
}

void CudnnGraph::Keep(CudnnDescriptor operation, absl::string_view name) {
  Note(operation.Finalize(name));
  operations_.push_back(std::move(operation));
}

// Keeps an operation and the part that describes it. The operation refers to
// the part, so both live as long as the graph.
void CudnnGraph::Keep(CudnnDescriptor operation, absl::string_view name,
                      cudnnBackendAttributeName_t attribute,
                      CudnnDescriptor part) {
  operation.SetDescriptor(attribute, part.get());
  parts_.push_back(std::move(part));
  Keep(std::move(operation), name);
}

CudnnDescriptor CudnnGraph::Window(const CudnnWindow& window) {
  CudnnDescriptor made(functions_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  // Layers of neural networks do not flip their filters.
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  made.SetInteger(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
                  static_cast<int64_t>(window.strides.size()));
  made.SetType(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  made.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
           &mode);
  made.SetIntegers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.before);
  made.SetIntegers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.behind);
  made.SetIntegers(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations);
  made.SetIntegers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides);
  Note(made.Finalize("describing a convolution"));
  absl::StrAppend(&text_, "p", absl::StrJoin(window.before, ","), "q",
                  absl::StrJoin(window.behind, ","), "s",
                  absl::StrJoin(window.strides, ","), "d",
                  absl::StrJoin(window.dilations, ","));
  return made;
}

void CudnnGraph::Convolve(const ConvolutionNames& names, Id a, Id b, Id result,
                          const CudnnWindow& window) {
  CudnnDescriptor shape = Window(window);
  CudnnDescriptor made =
      Begin(names.type, {{names.a, a}, {names.b, b}, {names.result, result}});
  // The result is alpha times the convolution plus beta times the old result.
  made.SetFloat(names.alpha, 1);
  made.SetFloat(names.beta, 0);
  Keep(std::move(made), names.name, names.window, std::move(shape));
}

void CudnnGraph::Convolve(Id x, Id w, Id y, const CudnnWindow& window) {
  Convolve({CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            "convolution", CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
           x, w, y, window);
}

void CudnnGraph::ConvolveInputGrad(Id dy, Id w, Id dx,
                                   const CudnnWindow& window) {
  Convolve({CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            "input gradient of a convolution",
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
           dy, w, dx, window);
}

void CudnnGraph::ConvolveWeightGrad(Id dy, Id x, Id dw,
                                    const CudnnWindow& window) {
  Convolve({CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            "weight gradient of a convolution",
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
           dy, x, dw, window);
}

void CudnnGraph::Apply(cudnnPointwiseMode_t mode,
                       absl::Span<const Operand> operands, int64_t axis) {
  absl::StrAppend(&text_, "mode", static_cast<int>(mode), "axis", axis);
  CudnnDescriptor function(functions_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  // Tensors of 16 bits are computed in float, too, as in every other operation.
  function.SetType(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (axis >= 0) function.SetInteger(CUDNN_ATTR_POINTWISE_AXIS, axis);
  Note(function.Finalize("describing a pointwise function"));
  Keep(Begin(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, operands),
       "pointwise operation", CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
       std::move(function));
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, Id x, Id b, Id y,
                           int64_t axis) {
  Apply(mode,
        {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
         {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
         {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}},
        axis);
}

void CudnnGraph::Select(Id x, Id b, Id choose, Id y) {
  Apply(CUDNN_POINTWISE_BINARY_SELECT,
        {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
         {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
         {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, choose},
         {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}},
        -1);
}

void CudnnGraph::Reshape(Id x, Id y) {
  Keep(Begin(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
             {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x},
              {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y}}),
       "reshape");
}

void CudnnGraph::MatMul(Id a, Id b, Id c) {
  CudnnDescriptor product(functions_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.SetType(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  Note(product.Finalize("describing a matrix product"));
  Keep(Begin(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
             {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
              {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
              {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c}}),
       "matrix product", CUDNN_ATTR_OPERATION_MATMUL_DESC, std::move(product));
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t operation, Id x, Id y) {
  absl::StrAppend(&text_, "reduce", static_cast<int>(operation));
  CudnnDescriptor function(functions_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  function.SetType(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  function.Set(CUDNN_ATTR_REDUCTION_OPERATOR,
               CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operation);
  Note(function.Finalize("describing a reduction"));
  Keep(Begin(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
             {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
              {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y}}),
       "reduction", CUDNN_ATTR_OPERATION_REDUCTION_DESC, std::move(function));
}

void CudnnGraph::BatchNorm(absl::Span<const Operand> operands) {
  const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  const cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
  CudnnDescriptor made =
      Begin(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, operands);
  made.Set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
  made.Set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1,
           &phase);
  Keep(std::move(made), "batch norm");
}

void CudnnGraph::BatchNormGrad(absl::Span<const Operand> operands) {
  const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  CudnnDescriptor made =
      Begin(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, operands);
  made.Set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
  Keep(std::move(made), "gradient of batch norm");
}

absl::StatusOr<CudnnDescriptor> CudnnGraph::Finish(cudnnHandle_t handle) {
  RETURN_IF_ERROR(error_);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) {
    operations.push_back(operation.get());
  }
  CudnnDescriptor graph(functions_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  // A planner has no handle.
  if (handle != nullptr) {
    graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  }
  graph.SetDescriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  RETURN_IF_ERROR(graph.Finalize("making a graph of operations"));
  return graph;
}

}  // namespace gpupool::engine::cuda
