#include "engine/backends/cpu/cpu_backend.h"

#include <hwy/targets.h>
#include <omp.h>

#include <dnnl.hpp>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/context.h"
#include "engine/backends/cpu/flush_denormals.h"
#include "engine/backends/cpu/kernels.h"
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
    case Op::kScaleShift:
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kSigmoidGrad:
    case Op::kTanhGrad:
      return MakeElementwise;
    case Op::kDropout:
      return MakeDropout;
    case Op::kMatMul:
      return MakeMatMul;
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
      return MakeSoftmax;
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kMeanSquaredError:
    case Op::kMeanSquaredErrorGrad:
    case Op::kCorrectCount:
      return MakeLoss;
    case Op::kColumnSum:
    case Op::kClipCoefficient:
      return MakeReduction;
    case Op::kSgdStep:
    case Op::kAdamStep:
    case Op::kRmspropStep:
    case Op::kAdagradStep:
    case Op::kLionStep:
    case Op::kEmaUpdate:
      return MakeOptimizer;
    default:
      return nullptr;
  }
}

// Data is float32; float64 stands only for learning rates, which are scalars.
absl::Status CheckType(const Value& value) {
  if (!IsFloating(value.dtype) || value.dtype == DType::kFloat32 ||
      (value.dtype == DType::kFloat64 && value.shape.rank() == 0)) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("the CPU computes in float32; \"", value.name, "\" is ",
                   DTypeName(value.dtype), value.shape.ToString()));
}

}  // namespace

CpuBackend::CpuBackend(int threads)
    : context_(std::make_unique<CpuContext>(threads)) {
  GPUPOOL_CHECK(threads >= 1);
  // Kernels keep the addresses of their functions, so Highway must have chosen
  // its target before: until then an address is that of the slow chooser.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#pragma omp parallel num_threads(threads)
  FlushDenormals();
}

CpuBackend::~CpuBackend() = default;

absl::StatusOr<std::unique_ptr<Kernel>> CpuBackend::Compile(
    const CompileRequest& request) {
  for (const ValueId id : request.node.inputs) {
    RETURN_IF_ERROR(CheckType(request.graph.value(id)));
  }
  for (const ValueId id : request.node.outputs) {
    RETURN_IF_ERROR(CheckType(request.graph.value(id)));
  }
  const Maker make = MakerOf(request.node.op);
  if (make == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("the CPU has no kernel for ", OpName(request.node.op)));
  }
  try {
    return make(request, *context_);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError("oneDNN ran out of host memory");
    }
    return absl::UnimplementedError(
        absl::StrCat("oneDNN has no kernel for it: ", error.what()));
  }
}

void CpuBackend::BeginRun() {
  omp_set_num_threads(context_->threads());
  FlushDenormals();
}

}  // namespace gpupool::engine
