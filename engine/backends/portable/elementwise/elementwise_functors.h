// Functors of the elementwise ops. (Host and device; plain C++.)
//
// Every op except the random ones is a small program of steps over operands.
// Three functors run such programs:
// - MapFunctor runs one step that is known at compile time, for hot ops.
// - ProgramFunctor computes several elements at a time in float.
// - NumberFunctor takes any types and computes one element at a time.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/scalar_math.h"
#include "engine/backends/portable/arithmetic/scalar_slopes.h"
#include "engine/backends/portable/arithmetic/whole_math.h"
#include "engine/backends/portable/elementwise/elementwise_program.h"
#include "engine/backends/portable/elementwise/random_functors.h"

namespace gpupool::engine::portable {

// Computes a step on floating numbers.
template <typename R>
GPUPOOL_HOST_DEVICE inline R ApplyStep(StepKind kind, uint8_t function, R alpha,
                                       R beta, R a, R b, R c) {
  switch (kind) {
    case StepKind::kUnary:
      return ApplyUnary(static_cast<UnaryFunction>(function), alpha, beta, a);
    case StepKind::kUnaryGrad:
      return a *
             UnarySlope(static_cast<UnaryFunction>(function), alpha, beta, b);
    case StepKind::kBinary:
      return ApplyBinary(static_cast<BinaryFunction>(function), a, b);
    case StepKind::kActivation:
      return Activate(static_cast<Activation>(function), a);
    case StepKind::kActivationGrad:
      return a * ActivationSlope(static_cast<Activation>(function), b);
    case StepKind::kWhere:
      return a != R(0) ? b : c;
    case StepKind::kCast:
      return a;
  }
  return a;
}

// Reads elements begin .. begin + count of an operand. count must be at most
// kWidth.
template <typename T, int kWidth>
GPUPOOL_HOST_DEVICE inline void ReadElements(const ProgramInput& input,
                                             const ProgramWalk& walk, int k,
                                             int64_t begin, int count,
                                             float* to) {
  const T* data = static_cast<const T*>(input.data);
  switch (input.access) {
    case Access::kScalar: {
      const float x = ToFloat(data[0]);
      for (int e = 0; e < kWidth; ++e) to[e] = x;
      return;
    }
    case Access::kLinear:
      ReadPack<T, kWidth>(data + begin, count, to);
      return;
    case Access::kRow:
      ReadPack<T, kWidth>(data + walk.FindOne(begin, k), count, to);
      return;
    case Access::kRepeat: {
      const float x = ToFloat(data[walk.FindOne(begin, k)]);
      for (int e = 0; e < kWidth; ++e) to[e] = x;
      return;
    }
    case Access::kWalk:
      // An index that changes at run time would force `to` out of registers.
      for (int e = 0; e < kWidth; ++e) to[e] = 0.0f;
      for (int e = 0; e < count; ++e) {
        const float x = ToFloat(data[walk.FindOne(begin + e, k)]);
        for (int j = 0; j < kWidth; ++j) to[j] = j == e ? x : to[j];
      }
      return;
  }
}

// One step whose operands and result are of type T.
template <typename T, StepKind kKind, int kFunction, int kArity>
struct MapFunctor {
  static constexpr StepKind kStepKind = kKind;
  static constexpr int kStepFunction = kFunction;
  static constexpr int kOperands = kArity;
  static constexpr int kWidth = static_cast<int>(16 / sizeof(T));

  ProgramInput inputs[kArity];
  ProgramWalk walk;
  T* y = nullptr;
  int64_t count = 0;
  float alpha = 0, beta = 0;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i * kWidth;
    const int64_t rest = count - begin;
    const int here = rest < kWidth ? static_cast<int>(rest) : kWidth;
    // Two arrays, not one of two: indices known at compile time keep them in
    // registers.
    float a[kWidth] = {}, b[kWidth] = {}, result[kWidth];
    ReadElements<T, kWidth>(inputs[0], walk, 0, begin, here, a);
    if constexpr (kArity > 1) {
      ReadElements<T, kWidth>(inputs[1], walk, 1, begin, here, b);
    }
    for (int e = 0; e < kWidth; ++e) {
      result[e] =
          ApplyStep<float>(kKind, kFunction, alpha, beta, a[e], b[e], 0.0f);
    }
    WritePack<T, kWidth>(result, here, y + begin);
  }
};

// Runs programs whose operands are float32, bfloat16, float16 or bool.
struct ProgramFunctor {
  static constexpr int kWidth = 4;

  ElementwiseProgram program;

  GPUPOOL_HOST_DEVICE void Read(int k, int64_t begin, int count,
                                float* to) const {
    const ProgramInput& input = program.inputs[k];
    switch (input.type) {
      case DType::kFloat32:
        return ReadElements<float, kWidth>(input, program.walk, k, begin, count,
                                           to);
      case DType::kBFloat16:
        return ReadElements<BFloat16, kWidth>(input, program.walk, k, begin,
                                              count, to);
      case DType::kFloat16:
        return ReadElements<Float16, kWidth>(input, program.walk, k, begin,
                                             count, to);
      default:
        return ReadElements<Truth, kWidth>(input, program.walk, k, begin, count,
                                           to);
    }
  }

  GPUPOOL_HOST_DEVICE static void Write(const ProgramResult& result,
                                        const float* from, int64_t begin,
                                        int count) {
    switch (result.type) {
      case DType::kFloat32:
        return WritePack<float, kWidth>(
            from, count, static_cast<float*>(result.data) + begin);
      case DType::kBFloat16:
        return WritePack<BFloat16, kWidth>(
            from, count, static_cast<BFloat16*>(result.data) + begin);
      case DType::kFloat16:
        return WritePack<Float16, kWidth>(
            from, count, static_cast<Float16*>(result.data) + begin);
      default:
        return WritePack<Truth, kWidth>(
            from, count, static_cast<Truth*>(result.data) + begin);
    }
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i * kWidth;
    const int64_t rest = program.count - begin;
    const int here = rest < kWidth ? static_cast<int>(rest) : kWidth;
    float operands[kMaxOperands][kWidth];
    for (int k = 0; k < program.input_count; ++k) {
      Read(k, begin, here, operands[k]);
    }
    for (int s = 0; s < program.step_count; ++s) {
      const ProgramStep& step = program.steps[s];
      const float* a = operands[step.operands[0]];
      const float* b = operands[step.operands[1]];
      const float* c = operands[step.operands[2]];
      float* y = operands[program.input_count + s];
      const auto alpha = static_cast<float>(step.alpha);
      const auto beta = static_cast<float>(step.beta);
      for (int e = 0; e < here; ++e) {
        y[e] = ApplyStep<float>(step.kind, step.function, alpha, beta, a[e],
                                b[e], c[e]);
      }
      if (step.kind == StepKind::kCast && step.type != DType::kFloat32) {
        for (int e = 0; e < here; ++e) y[e] = RoundTo(step.type, y[e]);
      }
    }
    for (int r = 0; r < program.result_count; ++r) {
      const ProgramResult& result = program.results[r];
      Write(result, operands[result.operand], begin, here);
    }
  }
};

// Runs programs of any types.
struct NumberFunctor {
  ElementwiseProgram program;

  GPUPOOL_HOST_DEVICE static Number Apply(const ProgramStep& step, Number a,
                                          Number b, Number c) {
    if (step.kind == StepKind::kCast) {
      return Convert(step.operand_type, step.type, a);
    }
    if (step.kind == StepKind::kWhere) return a.whole != 0 ? b : c;
    if (!IsFloatingType(step.operand_type)) {
      if (step.kind == StepKind::kUnary) {
        return Whole(ApplyUnary(static_cast<UnaryFunction>(step.function),
                                step.alpha, step.beta, a.whole));
      }
      return Whole(ApplyBinary(static_cast<BinaryFunction>(step.function),
                               a.whole, b.whole));
    }
    const double y = ApplyStep<double>(step.kind, step.function, step.alpha,
                                       step.beta, a.real, b.real, c.real);
    return IsFloatingType(step.type) ? Real(y) : Whole(static_cast<int64_t>(y));
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    Number operands[kMaxOperands];
    for (int k = 0; k < program.input_count; ++k) {
      const ProgramInput& input = program.inputs[k];
      int64_t at = i;
      if (input.access != Access::kLinear) at = program.walk.FindOne(i, k);
      operands[k] = LoadNumber(input.type, input.data, at);
    }
    for (int s = 0; s < program.step_count; ++s) {
      const ProgramStep& step = program.steps[s];
      const Number y =
          Apply(step, operands[step.operands[0]], operands[step.operands[1]],
                operands[step.operands[2]]);
      operands[program.input_count + s] =
          IsFloatingType(step.type) ? y : Hold(step.type, y);
    }
    for (int r = 0; r < program.result_count; ++r) {
      const ProgramResult& result = program.results[r];
      StoreNumber(result.type, result.data, i, operands[result.operand]);
    }
  }
};

// Converts from one hot type to another. Call i takes 8 neighbouring elements.
template <typename From, typename To>
struct CastFunctor {
  static constexpr int kWidth = 8;

  const From* x = nullptr;
  To* y = nullptr;
  int64_t count = 0;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i * kWidth;
    const int64_t rest = count - begin;
    const int here = rest < kWidth ? static_cast<int>(rest) : kWidth;
    float numbers[kWidth] = {};
    ReadPack<From, kWidth>(x + begin, here, numbers);
    WritePack<To, kWidth>(numbers, here, y + begin);
  }
};

}  // namespace gpupool::engine::portable

#define GPUPOOL_MAP_TYPE(T, kind, function, operands) \
  MapFunctor<T, kind, static_cast<int>(function), operands>

// The MapFunctors of a hot type.
#define GPUPOOL_ELEMENTWISE_MAPS(FOR, T)                                    \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivation, Activation::kRelu, 1))     \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivation, Activation::kGelu, 1))     \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivation, Activation::kGeluTanh, 1)) \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivation, Activation::kSigmoid, 1))  \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivation, Activation::kTanh, 1))     \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivationGrad, Activation::kRelu, 2)) \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivationGrad, Activation::kGelu, 2)) \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kActivationGrad, Activation::kGeluTanh, \
                       2))                                                  \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kUnary, UnaryFunction::kSilu, 1))       \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kUnary, UnaryFunction::kClip, 1))       \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kUnary, UnaryFunction::kNegate, 1))     \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kUnaryGrad, UnaryFunction::kSilu, 2))   \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kUnaryGrad, UnaryFunction::kClip, 2))   \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kBinary, BinaryFunction::kAdd, 2))      \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kBinary, BinaryFunction::kSubtract, 2)) \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kBinary, BinaryFunction::kMultiply, 2)) \
  FOR(GPUPOOL_MAP_TYPE(T, StepKind::kBinary, BinaryFunction::kDivide, 2))

// Calls FOR with every functor of LaunchFor; none is one of LaunchRows.
#define GPUPOOL_ELEMENTWISE_FUNCTORS(FOR, ROWS) \
  FOR(ProgramFunctor)                           \
  FOR(NumberFunctor)                            \
  FOR(CastFunctor<float, BFloat16>)             \
  FOR(CastFunctor<float, Float16>)              \
  FOR(CastFunctor<BFloat16, float>)             \
  FOR(CastFunctor<Float16, float>)              \
  FOR(DropoutFunctor<float>)                    \
  FOR(DropoutFunctor<BFloat16>)                 \
  FOR(DropoutFunctor<Float16>)                  \
  FOR(DropoutFunctor<double>)                   \
  FOR(RandomFunctor)                            \
  GPUPOOL_ELEMENTWISE_MAPS(FOR, float)          \
  GPUPOOL_ELEMENTWISE_MAPS(FOR, BFloat16)       \
  GPUPOOL_ELEMENTWISE_MAPS(FOR, Float16)
