// Optimizer steps and running averages: what fills in the functors.
#include <cmath>

#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/training/optimizer_functors.h"

namespace gpupool::engine::portable {
namespace {

template <typename T, typename Optimizer>
StepInputs<T> InputsOf(const Optimizer& optimizer, const KernelArguments& at) {
  StepInputs<T> in;
  in.p = at.in<T>(0);
  in.g = at.in<T>(1);
  in.learning_rate = at.in<double>(2);
  in.step = at.in<int64_t>(3);
  // The clip coefficient is always the last input.
  in.clip = optimizer.clip ? at.in<float>(at.inputs() - 1) : nullptr;
  in.weight_decay = optimizer.weight_decay;
  return in;
}

template <typename T>
SgdFunctor<T> Bind(const SgdAttributes& sgd, const KernelArguments& at) {
  SgdFunctor<T> functor;
  functor.in = InputsOf<T>(sgd, at);
  functor.p_out = at.out<T>(0);
  if (sgd.momentum != 0) {
    functor.velocity = at.in<T>(4);
    functor.velocity_out = at.out<T>(1);
  }
  functor.momentum = sgd.momentum;
  functor.dampening = sgd.dampening;
  functor.nesterov = sgd.nesterov;
  return functor;
}

template <typename T>
AdamFunctor<T> Bind(const AdamAttributes& adam, const KernelArguments& at) {
  AdamFunctor<T> functor;
  functor.in = InputsOf<T>(adam, at);
  functor.m = at.in<T>(4);
  functor.v = at.in<T>(5);
  functor.p_out = at.out<T>(0);
  functor.m_out = at.out<T>(1);
  functor.v_out = at.out<T>(2);
  functor.beta1 = adam.beta1;
  functor.beta2 = adam.beta2;
  // beta^step is exp(step * log(beta)) on the device.
  functor.log_beta1 = std::log(adam.beta1);
  functor.log_beta2 = std::log(adam.beta2);
  functor.epsilon = adam.epsilon;
  functor.decoupled = adam.decoupled;
  return functor;
}

template <typename T>
RmspropFunctor<T> Bind(const RmspropAttributes& rmsprop,
                       const KernelArguments& at) {
  RmspropFunctor<T> functor;
  functor.in = InputsOf<T>(rmsprop, at);
  functor.v = at.in<T>(4);
  functor.p_out = at.out<T>(0);
  functor.v_out = at.out<T>(1);
  if (rmsprop.centered) {
    functor.mean = at.in<T>(5);
    functor.mean_out = at.out<T>(2);
  }
  if (rmsprop.momentum != 0) {
    const size_t buffer = rmsprop.centered ? 6 : 5;
    functor.buffer = at.in<T>(buffer);
    // Each state's output is three places before its input.
    functor.buffer_out = at.out<T>(buffer - 3);
  }
  functor.alpha = rmsprop.alpha;
  functor.epsilon = rmsprop.epsilon;
  functor.momentum = rmsprop.momentum;
  return functor;
}

template <typename T>
AdagradFunctor<T> Bind(const AdagradAttributes& adagrad,
                       const KernelArguments& at) {
  return {InputsOf<T>(adagrad, at), at.in<T>(4),    at.out<T>(0), at.out<T>(1),
          adagrad.lr_decay,         adagrad.epsilon};
}

template <typename T>
LionFunctor<T> Bind(const LionAttributes& lion, const KernelArguments& at) {
  return {InputsOf<T>(lion, at), at.in<T>(4), at.out<T>(0),
          at.out<T>(1),          lion.beta1,  lion.beta2};
}

template <typename T>
AdamaxFunctor<T> Bind(const AdamaxAttributes& adamax,
                      const KernelArguments& at) {
  AdamaxFunctor<T> functor;
  functor.in = InputsOf<T>(adamax, at);
  functor.m = at.in<T>(4);
  functor.u = at.in<T>(5);
  functor.p_out = at.out<T>(0);
  functor.m_out = at.out<T>(1);
  functor.u_out = at.out<T>(2);
  functor.beta1 = adamax.beta1;
  functor.beta2 = adamax.beta2;
  functor.log_beta1 = std::log(adamax.beta1);
  functor.epsilon = adamax.epsilon;
  return functor;
}

template <typename T>
EmaFunctor<T> Bind(const EmaAttributes& ema, const KernelArguments& at) {
  return {at.in<T>(0), at.in<T>(1), at.out<T>(0), ema.decay};
}

// Makes a kernel that launches the functor Bind(addresses) for each element.
template <typename Carried>
KernelOr MakeStep(const Carried& attributes, const CompileRequest& request,
                  LaunchStream stream) {
  const Value& first = InputOf(request, 0);
  return ForFloating(first.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return MakeKernel([attributes, stream, count = first.shape.elements()](
                          const KernelArguments& at) {
      LaunchFor(stream, count, Bind<T>(attributes, at));
    });
  });
}

}  // namespace

KernelOr MakeOptimizer(const CompileRequest& request,
                       const PortableContext& context) {
  return std::visit(
      [&](const auto& optimizer) {
        return MakeStep(optimizer, request, context.stream);
      },
      OptimizerOf(request.node.attributes));
}

KernelOr MakeAverage(const CompileRequest& request,
                     const PortableContext& context) {
  return MakeStep(request.node.get<EmaAttributes>(), request, context.stream);
}

}  // namespace gpupool::engine::portable
