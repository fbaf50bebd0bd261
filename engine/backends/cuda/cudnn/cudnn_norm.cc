#include "engine/backends/cuda/cudnn/cudnn_norm.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "engine/backends/portable/reduction/norm_makers.h"
#include "engine/backends/strides.h"

namespace gpupool::engine::cuda {
namespace {

using portable::InputOf;
using portable::KernelOr;
using Id = CudnnGraph::Id;

// Least rank of tensors for the library's engines.
constexpr size_t kLeastRank = 4;

// Returns whether the library takes x [N, C, ...] with statistics like `side`.
bool Takes(const Value& x, const Value& side) {
  return HasCudnnType(x.dtype) && side.dtype == DType::kFloat32 &&
         x.shape.elements() > 0 &&
         x.shape.elements() <= std::numeric_limits<int32_t>::max();
}

// Builds the graph of a batch norm of images like `x`, with its operands and
// their places.
class NormBuilder {
 public:
  NormBuilder(const CudnnLibrary* library, const CompileRequest& request,
              const Value& x)
      : library_(library),
        request_(request),
        x_(x),
        epsilon_(request.node.get<NormAttributes>().epsilon),
        graph_(&library->functions()) {}

  // Adds an operand like x.
  CudnnGraph::Operand Image(cudnnBackendAttributeName_t name, OperandPlace at) {
    CudnnTensor tensor;
    tensor.type = CudnnTypeOf(x_.dtype);
    tensor.dims.assign(x_.shape.dims().begin(), x_.shape.dims().end());
    tensor.strides = MemoryStrides(x_.shape, x_.layout);
    return Add(name, std::move(tensor), at);
  }
  // Adds an operand with a float32 number per channel.
  CudnnGraph::Operand PerChannel(cudnnBackendAttributeName_t name,
                                 OperandPlace at) {
    CudnnTensor tensor;
    tensor.dims = {1, channels()};
    tensor.strides = {channels(), 1};
    return Add(name, std::move(tensor), at);
  }
  CudnnGraph::Operand Epsilon(cudnnBackendAttributeName_t name) {
    const Id id = graph_.AddNumber(static_cast<int>(rank()));
    parts_.numbers.push_back({id, static_cast<float>(epsilon_)});
    return {name, id};
  }
  // Converts the variances at `from` to the library's form at `to`, or with
  // `back` the other way.
  CudnnKernel::Companion Spread(OperandPlace from, OperandPlace to, bool back,
                                const portable::PortableContext& context) {
    CudnnKernel::Companion companion;
    companion.kernel =
        portable::MakeSpread({channels(), epsilon_, back}, context);
    companion.inputs = {from};
    companion.outputs = {to};
    return companion;
  }
  KernelOr Make() {
    return CudnnKernel::Make(library_, graph_, std::move(parts_),
                             PlanOptionsOf(request_, x_.dtype),
                             request_.options.benchmark);
  }

  CudnnGraph& graph() { return graph_; }
  CudnnKernel::Parts& parts() { return parts_; }
  int64_t channels() const { return x_.shape[1]; }

 private:
  size_t rank() const { return std::max(kLeastRank, x_.shape.dims().size()); }
  // Adds an operand. Missing axes have size 1.
  CudnnGraph::Operand Add(cudnnBackendAttributeName_t name, CudnnTensor tensor,
                          OperandPlace at) {
    tensor.dims.resize(rank(), 1);
    tensor.strides.resize(rank(), 1);
    const Id id = graph_.Add(tensor);
    parts_.tensors.push_back({id, at});
    return {name, id};
  }

  const CudnnLibrary* const library_;
  const CompileRequest& request_;
  const Value& x_;
  const double epsilon_;
  CudnnGraph graph_;
  CudnnKernel::Parts parts_;
};

// The library writes its form of the variance to the variance's place. The next
// kernel converts it there.
KernelOr MakeNorm(NormBuilder build, const portable::PortableContext& context) {
  const OperandPlace variance = OperandPlace::Output(2);
  build.graph().BatchNorm(
      {build.Image(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, OperandPlace::Input(0)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
                        OperandPlace::Input(1)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
                        OperandPlace::Input(2)),
       build.Epsilon(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC),
       build.Image(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
                   OperandPlace::Output(0)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
                        OperandPlace::Output(1)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
                        variance)});
  build.parts().after.push_back(
      build.Spread(variance, variance, true, context));
  return build.Make();
}

KernelOr MakeGrad(NormBuilder build, const portable::PortableContext& context) {
  const OperandPlace spread = OperandPlace::Scratch(0);
  build.graph().BatchNormGrad(
      {build.Image(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
                   OperandPlace::Input(0)),
       build.Image(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, OperandPlace::Input(1)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
                        OperandPlace::Input(2)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
                        OperandPlace::Input(3)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
                        spread),
       build.Image(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
                   OperandPlace::Output(0)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
                        OperandPlace::Output(1)),
       build.PerChannel(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC,
                        OperandPlace::Output(2))});
  CudnnKernel::Parts& parts = build.parts();
  parts.scratch_bytes = static_cast<uint64_t>(build.channels()) * sizeof(float);
  parts.before.push_back(
      build.Spread(OperandPlace::Input(4), spread, false, context));
  return build.Make();
}

}  // namespace

KernelOr MakeCudnnNorm(const CudnnLibrary* library,
                       const CompileRequest& request,
                       const portable::PortableContext& context) {
  const bool forward = request.node.op == Op::kBatchNormTraining;
  const Value& x = InputOf(request, forward ? 0 : 1);
  if (!Takes(x, InputOf(request, forward ? 1 : 2))) return nullptr;
  NormBuilder build(library, request, x);
  return forward ? MakeNorm(std::move(build), context)
                 : MakeGrad(std::move(build), context);
}

}  // namespace gpupool::engine::cuda
