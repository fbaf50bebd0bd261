// Steps of SGD, Adam and AdamW. Formulas: engine/graph/attributes_optimizers.h.
// Results may overwrite their inputs. Buffers are padded, so loops have no
// tails.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/training/optimizer.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <cmath>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/training/optimizer_step.h"
#include "engine/backends/function_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Updates elements [begin, end). `begin` must be a multiple of 16.
void SgdRange(const SgdStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  const FloatVector rate = hn::Set(d, s.learning_rate);
  const FloatVector decay = hn::Set(d, s.weight_decay);
  const FloatVector clip = hn::Set(d, s.clip);
  const FloatVector keep = hn::Set(d, s.keep_velocity);
  const FloatVector take = hn::Set(d, s.take_gradient);
  const FloatVector momentum = hn::Set(d, s.momentum);
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    const FloatVector p = hn::Load(d, s.p + i);
    FloatVector g = hn::MulAdd(decay, p, hn::Mul(clip, hn::Load(d, s.g + i)));
    if (s.velocity != nullptr) {
      const FloatVector v =
          hn::MulAdd(keep, hn::Load(d, s.velocity + i), hn::Mul(take, g));
      hn::Store(v, d, s.velocity_out + i);
      g = s.nesterov ? hn::MulAdd(momentum, v, g) : v;
    }
    hn::Store(hn::NegMulAdd(rate, g, p), d, s.p_out + i);
  }
}

void AdamRange(const AdamStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  const FloatVector beta1 = hn::Set(d, s.beta1);
  const FloatVector beta2 = hn::Set(d, s.beta2);
  const FloatVector rest1 = hn::Set(d, s.one_minus_beta1);
  const FloatVector rest2 = hn::Set(d, s.one_minus_beta2);
  const FloatVector clip = hn::Set(d, s.clip);
  const FloatVector decay = hn::Set(d, s.weight_decay);
  const FloatVector shrink = hn::Set(d, s.shrink);
  const FloatVector rate = hn::Set(d, s.rate);
  const FloatVector root_scale = hn::Set(d, s.root_scale);
  const FloatVector epsilon = hn::Set(d, s.epsilon);
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    const FloatVector p = hn::Load(d, s.p + i);
    const FloatVector g =
        hn::MulAdd(decay, p, hn::Mul(clip, hn::Load(d, s.g + i)));
    const FloatVector m =
        hn::MulAdd(beta1, hn::Load(d, s.m + i), hn::Mul(rest1, g));
    const FloatVector v =
        hn::MulAdd(beta2, hn::Load(d, s.v + i), hn::Mul(hn::Mul(rest2, g), g));
    hn::Store(m, d, s.m_out + i);
    hn::Store(v, d, s.v_out + i);
    const FloatVector divisor = hn::MulAdd(hn::Sqrt(v), root_scale, epsilon);
    hn::Store(hn::NegMulAdd(rate, hn::Div(m, divisor), hn::Mul(p, shrink)), d,
              s.p_out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(SgdRange);
HWY_EXPORT(AdamRange);

}  // namespace

KernelOr MakeStep(const SgdAttributes& attributes, const StepSize& size) {
  const auto range = HWY_DYNAMIC_DISPATCH(SgdRange);
  return MakeKernel([=](const KernelArguments& at) {
    if (KeepsEverything(at, attributes.clip, size.elements)) return;
    const bool first = *at.in<int64_t>(3) <= 1;
    const bool has_velocity = attributes.momentum != 0;
    SgdStep s;
    s.p = at.in(0);
    s.p_out = at.out(0);
    s.g = at.in(1);
    s.velocity = has_velocity ? at.in(4) : nullptr;
    s.velocity_out = has_velocity ? at.out(1) : nullptr;
    s.clip = ClipOf(at, attributes.clip);
    s.learning_rate = static_cast<float>(*at.in<double>(2));
    s.weight_decay = static_cast<float>(attributes.weight_decay);
    s.momentum = static_cast<float>(attributes.momentum);
    // In the first step the velocity is the gradient, without dampening.
    s.keep_velocity = first ? 0.0f : s.momentum;
    s.take_gradient =
        first ? 1.0f : static_cast<float>(1 - attributes.dampening);
    s.nesterov = attributes.nesterov;
    ParallelFor(size.threads, size.elements, 16,
                [&](int64_t begin, int64_t end) { range(s, begin, end); });
  });
}

KernelOr MakeStep(const AdamAttributes& attributes, const StepSize& size) {
  const auto range = HWY_DYNAMIC_DISPATCH(AdamRange);
  return MakeKernel([=](const KernelArguments& at) {
    if (KeepsEverything(at, attributes.clip, size.elements)) return;
    const double rate = *at.in<double>(2);
    const auto step = static_cast<double>(*at.in<int64_t>(3));
    const double correction1 = 1 - std::pow(attributes.beta1, step);
    const double correction2 = 1 - std::pow(attributes.beta2, step);
    AdamStep s;
    s.p = at.in(0);
    s.g = at.in(1);
    s.m = at.in(4);
    s.v = at.in(5);
    s.p_out = at.out(0);
    s.m_out = at.out(1);
    s.v_out = at.out(2);
    s.clip = ClipOf(at, attributes.clip);
    s.beta1 = static_cast<float>(attributes.beta1);
    s.beta2 = static_cast<float>(attributes.beta2);
    s.one_minus_beta1 = static_cast<float>(1 - attributes.beta1);
    s.one_minus_beta2 = static_cast<float>(1 - attributes.beta2);
    const double decay = attributes.weight_decay;
    // AdamW shrinks the parameter. Adam adds the decay to the gradient.
    s.weight_decay = attributes.decoupled ? 0.0f : static_cast<float>(decay);
    s.shrink =
        attributes.decoupled ? static_cast<float>(1 - rate * decay) : 1.0f;
    s.rate = static_cast<float>(rate / correction1);
    s.root_scale = static_cast<float>(1 / std::sqrt(correction2));
    s.epsilon = static_cast<float>(attributes.epsilon);
    ParallelFor(size.threads, size.elements, 16,
                [&](int64_t begin, int64_t end) { range(s, begin, end); });
  });
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
