#include <cmath>

#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/training/optimizer_functors.h"

namespace gpupool::engine::portable {
namespace {

template <typename T>
StepInputs<T> InputsOf(const KernelArguments& at, bool clip,
                       double weight_decay) {
  StepInputs<T> in;
  in.p = at.in<T>(0);
  in.g = at.in<T>(1);
  in.learning_rate = at.in<double>(2);
  in.step = at.in<int64_t>(3);
  // The clip coefficient is always the last input.
  in.clip = clip ? at.in<float>(at.inputs() - 1) : nullptr;
  in.weight_decay = weight_decay;
  return in;
}

// Makes a kernel that launches the functor bind(addresses) for each element.
template <typename Bind>
std::unique_ptr<Kernel> MakeStep(const CompileRequest& request,
                                 LaunchStream stream, const Bind& bind) {
  return MakeKernel(
      [=, count = InputOf(request, 0).shape.elements()](
          const KernelArguments& at) { LaunchFor(stream, count, bind(at)); });
}

template <typename T>
std::unique_ptr<Kernel> MakeSgd(const CompileRequest& request,
                                LaunchStream stream) {
  const SgdAttributes sgd = request.node.get<SgdAttributes>();
  return MakeStep(request, stream, [sgd](const KernelArguments& at) {
    SgdFunctor<T> functor;
    functor.in = InputsOf<T>(at, sgd.clip, sgd.weight_decay);
    functor.p_out = at.out<T>(0);
    if (sgd.momentum != 0) {
      functor.velocity = at.in<T>(4);
      functor.velocity_out = at.out<T>(1);
    }
    functor.momentum = sgd.momentum;
    functor.dampening = sgd.dampening;
    functor.nesterov = sgd.nesterov;
    return functor;
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeAdam(const CompileRequest& request,
                                 LaunchStream stream) {
  const AdamAttributes adam = request.node.get<AdamAttributes>();
  // beta^step is exp(step * log(beta)) on the device.
  const double log_beta1 = std::log(adam.beta1);
  const double log_beta2 = std::log(adam.beta2);
  return MakeStep(request, stream, [=](const KernelArguments& at) {
    AdamFunctor<T> functor;
    functor.in = InputsOf<T>(at, adam.clip, adam.weight_decay);
    functor.m = at.in<T>(4);
    functor.v = at.in<T>(5);
    functor.p_out = at.out<T>(0);
    functor.m_out = at.out<T>(1);
    functor.v_out = at.out<T>(2);
    functor.beta1 = adam.beta1;
    functor.beta2 = adam.beta2;
    functor.log_beta1 = log_beta1;
    functor.log_beta2 = log_beta2;
    functor.epsilon = adam.epsilon;
    functor.decoupled = adam.decoupled;
    return functor;
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeRmsprop(const CompileRequest& request,
                                    LaunchStream stream) {
  const RmspropAttributes rmsprop = request.node.get<RmspropAttributes>();
  return MakeStep(request, stream, [rmsprop](const KernelArguments& at) {
    RmspropFunctor<T> functor;
    functor.in = InputsOf<T>(at, rmsprop.clip, rmsprop.weight_decay);
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
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeAdagrad(const CompileRequest& request,
                                    LaunchStream stream) {
  const AdagradAttributes adagrad = request.node.get<AdagradAttributes>();
  return MakeStep(request, stream, [adagrad](const KernelArguments& at) {
    return AdagradFunctor<T>{
        InputsOf<T>(at, adagrad.clip, adagrad.weight_decay),
        at.in<T>(4),
        at.out<T>(0),
        at.out<T>(1),
        adagrad.lr_decay,
        adagrad.epsilon};
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeLion(const CompileRequest& request,
                                 LaunchStream stream) {
  const LionAttributes lion = request.node.get<LionAttributes>();
  return MakeStep(request, stream, [lion](const KernelArguments& at) {
    return LionFunctor<T>{InputsOf<T>(at, lion.clip, lion.weight_decay),
                          at.in<T>(4),
                          at.out<T>(0),
                          at.out<T>(1),
                          lion.beta1,
                          lion.beta2};
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeEma(const CompileRequest& request,
                                LaunchStream stream) {
  const double decay = request.node.get<EmaAttributes>().decay;
  return MakeStep(request, stream, [decay](const KernelArguments& at) {
    return EmaFunctor<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0), decay};
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeOptimizerOf(const CompileRequest& request,
                                        LaunchStream stream) {
  switch (request.node.op) {
    case Op::kSgdStep:
      return MakeSgd<T>(request, stream);
    case Op::kAdamStep:
      return MakeAdam<T>(request, stream);
    case Op::kRmspropStep:
      return MakeRmsprop<T>(request, stream);
    case Op::kAdagradStep:
      return MakeAdagrad<T>(request, stream);
    case Op::kLionStep:
      return MakeLion<T>(request, stream);
    case Op::kEmaUpdate:
      return MakeEma<T>(request, stream);
    default:
      return nullptr;
  }
}

}  // namespace

KernelOr MakeOptimizer(const CompileRequest& request,
                       const PortableContext& context) {
  return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
    return MakeOptimizerOf<typename decltype(tag)::Type>(request,
                                                         context.stream);
  });
}

}  // namespace gpupool::engine::portable
