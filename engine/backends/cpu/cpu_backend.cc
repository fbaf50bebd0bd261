#include "engine/backends/cpu/cpu_backend.h"

#include <hwy/targets.h>
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/all_reduce.h"
#include "engine/backends/cpu/elementwise/tile_program.h"
#include "engine/backends/cpu/fallback.h"
#include "engine/backends/cpu/flush_denormals.h"
#include "engine/backends/cpu/kernel/context.h"
#include "engine/backends/cpu/kernel/half_rows.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/widened.h"
#include "engine/backends/function_kernel.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

using Maker = KernelOr (*)(const CompileRequest&, const CpuContext&);

Maker MakerOf(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kLayoutConvert:
      return MakeLayout;
    case Op::kAdd:
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kSigmoidGrad:
    case Op::kTanhGrad:
    case Op::kUnary:
    case Op::kUnaryGrad:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kFused:
      return MakeTileProgram;
    case Op::kScaleShift:
      return MakeScaleShift;
    case Op::kCast:
      return MakeCast;
    case Op::kReduce:
    case Op::kArgReduce:
    case Op::kCumSum:
      return MakeReduce;
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kSliceGrad:
    case Op::kPad:
    case Op::kPadGrad:
    case Op::kConcat:
    case Op::kBroadcast:
      return MakeMovement;
    case Op::kGather:
    case Op::kGatherGrad:
      return MakeGather;
    case Op::kDropout:
      return MakeDropout;
    case Op::kMatMul:
      return MakeMatMul;
    case Op::kBatchMatMul:
      return MakeBatchMatMul;
    case Op::kAttention:
      return MakeAttention;
    case Op::kAttentionGrad:
      return MakeAttentionGrad;
    case Op::kConv2d:
      return MakeConv2d;
    case Op::kConv2dInputGrad:
      return MakeConv2dInputGrad;
    case Op::kConv2dWeightGrad:
      return MakeConv2dWeightGrad;
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kMaxPoolGrad:
    case Op::kAvgPoolGrad:
      return MakePool;
    case Op::kGlobalAvgPool:
    case Op::kGlobalAvgPoolGrad:
      return MakeGlobalPool;
    case Op::kResize:
    case Op::kResizeGrad:
      return MakeResize;
    case Op::kBatchNormTraining:
    case Op::kBatchNormUpdate:
    case Op::kBatchNormInference:
    case Op::kBatchNormTrainingGrad:
    case Op::kFoldBatchNorm:
      return MakeBatchNorm;
    case Op::kLayerNorm:
    case Op::kLayerNormGrad:
      return MakeLayerNorm;
    case Op::kSoftmax:
    case Op::kSoftmaxGrad:
    case Op::kLogSoftmax:
    case Op::kLogSoftmaxGrad:
      return MakeSoftmax;
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kMeanSquaredError:
    case Op::kMeanSquaredErrorGrad:
    case Op::kCorrectCount:
      return MakeLoss;
    case Op::kColumnSum:
    case Op::kGlobalNorm:
      return MakeReduction;
    case Op::kSgdStep:
    case Op::kAdamStep:
      return MakeOptimizer;
    case Op::kRmspropStep:
    case Op::kAdagradStep:
    case Op::kLionStep:
    case Op::kEmaUpdate:
      return MakeAdaptiveOptimizer;
    default:
      return nullptr;
  }
}

// Returns whether the op's kernel takes elements of any type.
bool TakesAnyType(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kLayoutConvert:
    case Op::kCast:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kSliceGrad:
    case Op::kPad:
    case Op::kPadGrad:
    case Op::kConcat:
    case Op::kBroadcast:
    case Op::kGather:
      return true;
    default:
      return false;
  }
}

// Returns whether oneDNN computes the op in bfloat16 if the processor can.
bool IsNativeInBfloat16(Op op) {
  switch (op) {
    case Op::kMatMul:
    case Op::kConv2d:
    case Op::kConv2dInputGrad:
    case Op::kConv2dWeightGrad:
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kMaxPoolGrad:
    case Op::kAvgPoolGrad:
    case Op::kBatchNormTraining:
    case Op::kBatchNormInference:
    case Op::kBatchNormTrainingGrad:
      return true;
    default:
      return false;
  }
}

// Returns whether kernels for float32 take the value as it is. Learning rates
// are scalars of float64. Labels, indices and counts are integers.
bool IsSideType(const Value& value) {
  return !IsFloating(value.dtype) || value.dtype == DType::kFloat32 ||
         (value.dtype == DType::kFloat64 && value.shape.rank() == 0);
}

enum class Route : uint8_t {
  kDirect,    // the kernel takes the types as they are
  kWidened,   // the kernel takes float32 in place of 16-bit numbers
  kFallback,  // the reference kernel
};

Route RouteOf(const Graph& graph, const Node& node) {
  if (MakerOf(node.op) == nullptr) return Route::kFallback;
  if (TakesAnyType(node.op)) return Route::kDirect;
  const bool tile = MakerOf(node.op) == MakeTileProgram;
  bool half = false;
  const auto fast = [&](ValueId id) {
    const Value& value = graph.value(id);
    half = half || IsHalf(value.dtype);
    return tile ? IsTileType(value.dtype)
                : IsSideType(value) || IsHalf(value.dtype);
  };
  const bool all_fast =
      IsTileType(graph.value(node.inputs[0]).dtype) &&
      std::all_of(node.inputs.begin(), node.inputs.end(), fast) &&
      std::all_of(node.outputs.begin(), node.outputs.end(), fast);
  if (!all_fast) return Route::kFallback;
  // Tile programs convert 16-bit numbers themselves.
  return half && !tile ? Route::kWidened : Route::kDirect;
}

bool AllOutputsEmpty(const CompileRequest& request) {
  const ValueIds& outputs = request.node.outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId id) {
    return request.graph.value(id).shape.elements() == 0;
  });
}

// Returns a null kernel when there is no fast one for these types or shapes.
KernelOr MakeDirect(const CompileRequest& request, const CpuContext& context) {
  try {
    return MakerOf(request.node.op)(request, context);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError("oneDNN ran out of host memory");
    }
    // Not an error: another kernel takes the node.
    if (error.status == dnnl_unimplemented) return nullptr;
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

bool HasFloat16(const CompileRequest& request) {
  for (const ValueIds* ids : {&request.node.inputs, &request.node.outputs}) {
    for (const ValueId id : *ids) {
      if (request.graph.value(id).dtype == DType::kFloat16) return true;
    }
  }
  return false;
}

KernelOr MakeFast(const CompileRequest& request, const CpuContext& context) {
  switch (RouteOf(request.graph, request.node)) {
    case Route::kDirect:
      return MakeDirect(request, context);
    case Route::kWidened:
      // Converts nothing where oneDNN takes bfloat16. It never takes float16
      // here.
      if (IsNativeInBfloat16(request.node.op) && !HasFloat16(request)) {
        ASSIGN_OR_RETURN(auto kernel, MakeDirect(request, context));
        if (kernel != nullptr) return kernel;
      }
      return MakeWidened(request, context, MakeDirect);
    case Route::kFallback:
      break;
  }
  return nullptr;
}

}  // namespace

CpuBackend::CpuBackend(int threads)
    : context_(std::make_unique<CpuContext>(threads)) {
  GPUPOOL_CHECK(threads >= 1);
  // Kernels keep the addresses of their functions. So Highway must choose its
  // target first: until then, the addresses are those of its slow chooser.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
// The flag belongs to a thread, so each thread of the team sets it.
#pragma omp parallel num_threads(threads)
  FlushDenormals();
}

CpuBackend::~CpuBackend() = default;

absl::StatusOr<std::unique_ptr<Kernel>> CpuBackend::Compile(
    const CompileRequest& request) {
  // No other kernel then has to handle empty outputs.
  if (AllOutputsEmpty(request)) {
    return MakeKernel([](const KernelArguments&) {});
  }
  if (IsAllReduce(request.node.op)) return MakeAllReduce(request);
  ASSIGN_OR_RETURN(auto kernel, MakeFast(request, *context_));
  if (kernel != nullptr) return kernel;
  return MakeFallback(request);
}

void CpuBackend::BeginRun() {
  omp_set_num_threads(context_->threads());
  FlushDenormals();
}

bool IsFastOnCpu(const Graph& graph, const Node& node) {
  if (IsAllReduce(node.op)) return true;
  return RouteOf(graph, node) != Route::kFallback;
}

bool IsFastOnCpu(Op op, DType dtype) {
  if (IsAllReduce(op)) return dtype == DType::kFloat32;
  return MakerOf(op) != nullptr &&
         (dtype == DType::kFloat32 || IsHalf(dtype) || TakesAnyType(op));
}

}  // namespace gpupool::engine
