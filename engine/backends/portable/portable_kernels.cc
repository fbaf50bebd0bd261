// Maps ops to the families that make their kernels.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::portable {
namespace {

using Maker = KernelOr (*)(const CompileRequest&, const PortableContext&);

// Returns null for ops without portable kernels.
Maker MakerOf(Op op) {
  switch (op) {
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kFused:
    case Op::kAdd:
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kScaleShift:
    case Op::kDropout:
    case Op::kRandom:
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kSigmoidGrad:
    case Op::kTanhGrad:
    case Op::kUnaryGrad:
      return MakeElementwise;
    case Op::kReshape:
    case Op::kLayoutConvert:
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kSliceGrad:
    case Op::kPad:
    case Op::kPadGrad:
    case Op::kConcat:
      return MakeMovement;
    case Op::kGather:
    case Op::kGatherGrad:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kScatterElements:
    case Op::kScatterNd:
    case Op::kTopK:
      return MakeIndexing;
    case Op::kReduce:
    case Op::kArgReduce:
    case Op::kCumSum:
    case Op::kColumnSum:
    case Op::kGlobalNorm:
      return MakeReduce;
    case Op::kMatMul:
    case Op::kBatchMatMul:
    case Op::kConv2d:
    case Op::kConv2dInputGrad:
    case Op::kConv2dWeightGrad:
    case Op::kAttention:
    case Op::kAttentionGrad:
      return MakeProduct;
    case Op::kMaxPool:
    case Op::kMaxPoolGrad:
    case Op::kAvgPool:
    case Op::kAvgPoolGrad:
    case Op::kGlobalAvgPool:
    case Op::kGlobalAvgPoolGrad:
    case Op::kResize:
    case Op::kResizeGrad:
    case Op::kLrn:
    case Op::kLrnGrad:
      return MakeImage;
    case Op::kBatchNormTraining:
    case Op::kBatchNormUpdate:
    case Op::kBatchNormInference:
    case Op::kBatchNormTrainingGrad:
    case Op::kLayerNorm:
    case Op::kLayerNormGrad:
    case Op::kSoftmax:
    case Op::kSoftmaxGrad:
    case Op::kLogSoftmax:
    case Op::kLogSoftmaxGrad:
    case Op::kFoldBatchNorm:
      return MakeNorm;
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kMeanSquaredError:
    case Op::kMeanSquaredErrorGrad:
    case Op::kCorrectCount:
      return MakeLoss;
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

bool AllOutputsEmpty(const CompileRequest& request) {
  const ValueIds& outputs = request.node.outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId id) {
    return request.graph.value(id).shape.elements() == 0;
  });
}

}  // namespace

KernelOr MakePortableKernel(const CompileRequest& request,
                            const PortableContext& context) {
  // No family then has to handle empty outputs.
  if (AllOutputsEmpty(request)) {
    return MakeKernel([](const KernelArguments&) {});
  }
  const Node& node = request.node;
  // A family returns null for a node beyond its limits.
  if (const Maker make = MakerOf(node.op); make != nullptr) {
    ASSIGN_OR_RETURN(auto kernel, make(request, context));
    if (kernel != nullptr) return kernel;
  }
  return absl::UnimplementedError(absl::StrCat(
      "no portable kernel for ", OpName(node.op), " of '", node.source,
      "' with ", DTypeName(OutputOf(request, 0).dtype), " results"));
}

}  // namespace gpupool::engine::portable
