// Which family makes the kernel of an op.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/maker.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::portable {
namespace {

using Maker = KernelOr (*)(const CompileRequest&, const PortableContext&);

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
    case Op::kClipCoefficient:
      return MakeReduce;
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
  if (AllOutputsEmpty(request)) {
    return MakeKernel([](const KernelArguments&) {});
  }
  const Node& node = request.node;
  if (const Maker make = MakerOf(node.op); make != nullptr) {
    ASSIGN_OR_RETURN(auto kernel, make(request, context));
    if (kernel != nullptr) return kernel;
  }
  return absl::UnimplementedError(absl::StrCat(
      "no portable kernel for ", OpName(node.op), " of '", node.source,
      "' with ", DTypeName(OutputOf(request, 0).dtype), " results"));
}

}  // namespace gpupool::engine::portable
