// The choice of the optimizer's step; steps of all but SGD and Adam; running
// averages of parameters. Formulas: engine/graph/attributes_optimizers.h.
// Results may overwrite their inputs. Buffers are padded, so loops have no
// tails.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/training/optimizer_adaptive.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/training/optimizer_step.h"
#include "engine/backends/function_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using V = FloatVector;

// Returns clip * g + weight_decay * p.
HWY_INLINE V DecayedGradient(const AdaptiveStep& s, V p, int64_t i) {
  const FloatTag d;
  return hn::MulAdd(hn::Set(d, s.weight_decay), p,
                    hn::Mul(hn::Set(d, s.clip), hn::Load(d, s.g + i)));
}

// Updates elements [begin, end). `begin` must be a multiple of 16.
void RmspropRange(const AdaptiveStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  const V keep = hn::Set(d, s.keep), take = hn::Set(d, s.take);
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    const V p = hn::Load(d, s.p + i);
    const V g = DecayedGradient(s, p, i);
    V square = hn::MulAdd(keep, hn::Load(d, s.state + i),
                          hn::Mul(hn::Mul(take, g), g));
    hn::Store(square, d, s.state_out + i);
    if (s.mean != nullptr) {
      const V mean =
          hn::MulAdd(keep, hn::Load(d, s.mean + i), hn::Mul(take, g));
      hn::Store(mean, d, s.mean_out + i);
      // The variance: the mean square less the square of the mean.
      square = hn::NegMulAdd(mean, mean, square);
    }
    V move = hn::Div(g, hn::Add(hn::Sqrt(square), hn::Set(d, s.epsilon)));
    if (s.velocity != nullptr) {
      move =
          hn::MulAdd(hn::Set(d, s.momentum), hn::Load(d, s.velocity + i), move);
      hn::Store(move, d, s.velocity_out + i);
    }
    hn::Store(hn::NegMulAdd(hn::Set(d, s.rate), move, p), d, s.p_out + i);
  }
}

void AdagradRange(const AdaptiveStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    const V p = hn::Load(d, s.p + i);
    const V g = DecayedGradient(s, p, i);
    const V sum = hn::MulAdd(g, g, hn::Load(d, s.state + i));
    hn::Store(sum, d, s.state_out + i);
    const V move = hn::Div(g, hn::Add(hn::Sqrt(sum), hn::Set(d, s.epsilon)));
    hn::Store(hn::NegMulAdd(hn::Set(d, s.rate), move, p), d, s.p_out + i);
  }
}

void LionRange(const AdaptiveStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  const V zero = hn::Zero(d), rate = hn::Set(d, s.rate);
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    const V m = hn::Load(d, s.state + i);
    const V g = hn::Mul(hn::Set(d, s.clip), hn::Load(d, s.g + i));
    const V blend = hn::MulAdd(hn::Set(d, s.blend_keep), m,
                               hn::Mul(hn::Set(d, s.blend_take), g));
    // rate * sign(blend), which is 0 for 0 and NaN.
    const V move = hn::Sub(hn::IfThenElseZero(hn::Gt(blend, zero), rate),
                           hn::IfThenElseZero(hn::Lt(blend, zero), rate));
    const V p = hn::Mul(hn::Load(d, s.p + i), hn::Set(d, s.shrink));
    hn::Store(hn::Sub(p, move), d, s.p_out + i);
    hn::Store(hn::MulAdd(hn::Set(d, s.keep), m, hn::Mul(hn::Set(d, s.take), g)),
              d, s.state_out + i);
  }
}

void AdamaxRange(const AdaptiveStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    const V p = hn::Load(d, s.p + i);
    const V g = DecayedGradient(s, p, i);
    const V mean = hn::MulAdd(hn::Set(d, s.blend_keep), hn::Load(d, s.mean + i),
                              hn::Mul(hn::Set(d, s.blend_take), g));
    const V size = hn::Add(hn::Abs(g), hn::Set(d, s.epsilon));
    const V most =
        hn::Max(hn::Mul(hn::Set(d, s.keep), hn::Load(d, s.state + i)), size);
    hn::Store(mean, d, s.mean_out + i);
    hn::Store(most, d, s.state_out + i);
    hn::Store(hn::NegMulAdd(hn::Set(d, s.rate), hn::Div(mean, most), p), d,
              s.p_out + i);
  }
}

// Computes state' = keep * state + take * p.
void AverageRange(const AdaptiveStep& s, int64_t begin, int64_t end) {
  const FloatTag d;
  const V keep = hn::Set(d, s.keep), take = hn::Set(d, s.take);
  for (int64_t i = begin; i < end; i += FloatLanes()) {
    hn::Store(hn::MulAdd(keep, hn::Load(d, s.state + i),
                         hn::Mul(take, hn::Load(d, s.p + i))),
              d, s.state_out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(RmspropRange);
HWY_EXPORT(AdagradRange);
HWY_EXPORT(LionRange);
HWY_EXPORT(AdamaxRange);
HWY_EXPORT(AverageRange);

StepSize StepSizeOf(const CompileRequest& request, const CpuContext& context) {
  return {InputOf(request, 0).shape.elements(),
          context.ThreadsForBytes(MovedBytes(request))};
}

// Returns a step with the operands that all kinds have. The first state is
// input 4 and output 1.
AdaptiveStep StepOf(const KernelArguments& at, bool clip) {
  AdaptiveStep s;
  s.p = at.in(0);
  s.g = at.in(1);
  s.state = at.in(4);
  s.p_out = at.out(0);
  s.state_out = at.out(1);
  s.clip = ClipOf(at, clip);
  s.rate = static_cast<float>(*at.in<double>(2));
  return s;
}

template <typename Range>
void RunStep(const StepSize& count, Range range, const AdaptiveStep& s) {
  ParallelFor(count.threads, count.elements, 16,
              [&](int64_t begin, int64_t end) { range(s, begin, end); });
}

KernelOr MakeStep(const RmspropAttributes& rmsprop, const StepSize& count) {
  const auto range = HWY_DYNAMIC_DISPATCH(RmspropRange);
  return MakeKernel([=](const KernelArguments& at) {
    if (KeepsEverything(at, rmsprop.clip, count.elements)) return;
    AdaptiveStep s = StepOf(at, rmsprop.clip);
    s.weight_decay = static_cast<float>(rmsprop.weight_decay);
    s.keep = static_cast<float>(rmsprop.alpha);
    s.take = static_cast<float>(1 - rmsprop.alpha);
    s.epsilon = static_cast<float>(rmsprop.epsilon);
    s.momentum = static_cast<float>(rmsprop.momentum);
    // The states that a job has follow in this order: square, mean, velocity.
    size_t state = 5;
    if (rmsprop.centered) {
      s.mean = at.in(state);
      s.mean_out = at.out(state - 3);
      ++state;
    }
    if (rmsprop.momentum != 0) {
      s.velocity = at.in(state);
      s.velocity_out = at.out(state - 3);
    }
    RunStep(count, range, s);
  });
}

KernelOr MakeStep(const AdagradAttributes& adagrad, const StepSize& count) {
  const auto range = HWY_DYNAMIC_DISPATCH(AdagradRange);
  return MakeKernel([=](const KernelArguments& at) {
    if (KeepsEverything(at, adagrad.clip, count.elements)) return;
    AdaptiveStep s = StepOf(at, adagrad.clip);
    s.weight_decay = static_cast<float>(adagrad.weight_decay);
    s.epsilon = static_cast<float>(adagrad.epsilon);
    // Steps count from 1, but the first one has no decay.
    const auto steps = static_cast<double>(*at.in<int64_t>(3) - 1);
    s.rate =
        static_cast<float>(*at.in<double>(2) / (1 + steps * adagrad.lr_decay));
    RunStep(count, range, s);
  });
}

KernelOr MakeStep(const LionAttributes& lion, const StepSize& count) {
  const auto range = HWY_DYNAMIC_DISPATCH(LionRange);
  return MakeKernel([=](const KernelArguments& at) {
    if (KeepsEverything(at, lion.clip, count.elements)) return;
    AdaptiveStep s = StepOf(at, lion.clip);
    s.keep = static_cast<float>(lion.beta2);
    s.take = static_cast<float>(1 - lion.beta2);
    s.blend_keep = static_cast<float>(lion.beta1);
    s.blend_take = static_cast<float>(1 - lion.beta1);
    s.shrink = static_cast<float>(1 - *at.in<double>(2) * lion.weight_decay);
    RunStep(count, range, s);
  });
}

KernelOr MakeStep(const AdamaxAttributes& adamax, const StepSize& count) {
  const auto range = HWY_DYNAMIC_DISPATCH(AdamaxRange);
  return MakeKernel([=](const KernelArguments& at) {
    if (KeepsEverything(at, adamax.clip, count.elements)) return;
    AdaptiveStep s = StepOf(at, adamax.clip);
    s.mean = at.in(4);
    s.mean_out = at.out(1);
    s.state = at.in(5);
    s.state_out = at.out(2);
    s.weight_decay = static_cast<float>(adamax.weight_decay);
    s.blend_keep = static_cast<float>(adamax.beta1);
    s.blend_take = static_cast<float>(1 - adamax.beta1);
    s.keep = static_cast<float>(adamax.beta2);
    s.epsilon = static_cast<float>(adamax.epsilon);
    const auto step = static_cast<double>(*at.in<int64_t>(3));
    s.rate = static_cast<float>(*at.in<double>(2) /
                                (1 - std::pow(adamax.beta1, step)));
    RunStep(count, range, s);
  });
}

KernelOr MakeAverageOf(const EmaAttributes& ema, const StepSize& count) {
  const auto range = HWY_DYNAMIC_DISPATCH(AverageRange);
  return MakeKernel([=](const KernelArguments& at) {
    AdaptiveStep s;
    s.state = at.in(0);
    s.p = at.in(1);
    s.state_out = at.out(0);
    s.keep = static_cast<float>(ema.decay);
    s.take = static_cast<float>(1 - ema.decay);
    RunStep(count, range, s);
  });
}

}  // namespace

KernelOr MakeOptimizer(const CompileRequest& request,
                       const CpuContext& context) {
  if (InputOf(request, 0).dtype != DType::kFloat32) return nullptr;
  return std::visit(
      [size = StepSizeOf(request, context)](const auto& optimizer) {
        return MakeStep(optimizer, size);
      },
      OptimizerOf(request.node.attributes));
}

KernelOr MakeAverage(const CompileRequest& request, const CpuContext& context) {
  if (InputOf(request, 0).dtype != DType::kFloat32) return nullptr;
  return MakeAverageOf(request.node.get<EmaAttributes>(),
                       StepSizeOf(request, context));
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
