#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/reduction/norm_makers.h"
#include "engine/backends/portable/reduction/statistics_functors.h"

namespace gpupool::engine::portable {

KernelOr MakeBatchNormUpdate(const CompileRequest& request,
                             const PortableContext& context) {
  const auto& update = request.node.get<BatchNormUpdateAttributes>();
  const auto count = static_cast<double>(update.count);
  RunningFunctor functor;
  functor.type = InputOf(request, 0).dtype;
  functor.momentum = update.momentum;
  // The batch's variance is biased, the running one is not.
  functor.unbias = count / (count - 1);
  return MakeKernel([=, stream = context.stream,
                     channels = InputOf(request, 0).shape.elements()](
                        const KernelArguments& at) {
    RunningFunctor bound = functor;
    bound.running_mean = at.in<void>(0);
    bound.running_variance = at.in<void>(1);
    bound.mean = at.in<void>(2);
    bound.variance = at.in<void>(3);
    bound.mean_out = at.out<void>(0);
    bound.variance_out = at.out<void>(1);
    LaunchFor(stream, channels, bound);
  });
}

KernelOr MakeFoldBatchNorm(const CompileRequest& request,
                           const PortableContext& context) {
  const Value& w = InputOf(request, 0);
  const int64_t filters = w.shape[0];
  FoldFunctor functor;
  functor.type = w.dtype;
  functor.epsilon = request.node.get<NormAttributes>().epsilon;
  functor.weights = w.shape.elements();
  functor.per_filter = functor.weights / filters;
  return MakeKernel([=, stream = context.stream](const KernelArguments& at) {
    FoldFunctor bound = functor;
    bound.w = at.in<void>(0);
    bound.gamma = at.in<void>(1);
    bound.beta = at.in<void>(2);
    bound.mean = at.in<void>(3);
    bound.variance = at.in<void>(4);
    bound.bias = at.inputs() > 5 ? at.in<void>(5) : nullptr;
    bound.w_out = at.out<void>(0);
    bound.bias_out = at.out<void>(1);
    // The calls after the weights' compute one bias each.
    LaunchFor(stream, bound.weights + filters, bound);
  });
}

std::unique_ptr<Kernel> MakeSpread(const SpreadOptions& options,
                                   const PortableContext& context) {
  return MakeKernel([=, stream = context.stream](const KernelArguments& at) {
    LaunchFor(
        stream, options.channels,
        SpreadFunctor{at.in(0), at.out(0), options.epsilon, options.back});
  });
}

}  // namespace gpupool::engine::portable
