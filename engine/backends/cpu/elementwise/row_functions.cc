#include "engine/backends/cpu/elementwise/row_functions.h"

#include <algorithm>
#include <cmath>

#include "engine/backends/reference/scalar_functions.h"

namespace gpupool::engine {
namespace {

constexpr int kTranscendentalFlops = 30;
constexpr int kScalarFlops = 400;

// Computes one number after the other, for functions without vector code.
void ScalarUnary(const float* const* x, float* y, int64_t count,
                 const RowNumbers& numbers) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<float>(
        reference::Apply(numbers.unary, static_cast<double>(x[0][i])));
  }
}

void ScalarUnaryGrad(const float* const* x, float* y, int64_t count,
                     const RowNumbers& numbers) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[0][i] * static_cast<float>(reference::Derivative(
                         numbers.unary, static_cast<double>(x[1][i])));
  }
}

void ScalarBinary(const float* const* x, float* y, int64_t count,
                  const RowNumbers& numbers) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<float>(reference::Apply(numbers.binary, DType::kFloat32,
                                               static_cast<double>(x[0][i]),
                                               static_cast<double>(x[1][i])));
  }
}

// Usually the exponent is one number for the whole row, and usually 2 or 3.
void PowerRow(const float* const* x, float* y, int64_t count,
              const RowNumbers&) {
  const float* base = x[0];
  const float* power = x[1];
  const float first = power[0];
  const bool one = std::all_of(power, power + count,
                               [first](float p) { return p == first; });
  if (one && first == 2.0f) {
    for (int64_t i = 0; i < count; ++i) y[i] = base[i] * base[i];
  } else if (one && first == 3.0f) {
    for (int64_t i = 0; i < count; ++i) y[i] = base[i] * base[i] * base[i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = std::pow(base[i], power[i]);
  }
}

bool IsTranscendental(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kExp:
    case UnaryFunction::kLog:
    case UnaryFunction::kErf:
    case UnaryFunction::kElu:
    case UnaryFunction::kSelu:
    case UnaryFunction::kSoftplus:
    case UnaryFunction::kSilu:
    case UnaryFunction::kMish:
      return true;
    default:
      return false;
  }
}

RowStep UnaryStep(const UnaryAttributes& unary, bool gradient) {
  RowStep step;
  step.numbers.alpha = static_cast<float>(unary.alpha);
  step.numbers.beta = static_cast<float>(unary.beta);
  step.numbers.unary = unary;
  step.function = gradient ? UnaryGradRowFunction(unary.function)
                           : UnaryRowFunction(unary.function);
  step.flops = IsTranscendental(unary.function) ? kTranscendentalFlops : 1;
  if (step.function == nullptr) {
    step.function = gradient ? ScalarUnaryGrad : ScalarUnary;
    step.flops = kScalarFlops;
  }
  return step;
}

RowStep BinaryStep(BinaryFunction function) {
  RowStep step;
  step.numbers.binary = function;
  step.function = BinaryRowFunction(function);
  if (step.function == nullptr) {
    step.function =
        function == BinaryFunction::kPower ? PowerRow : ScalarBinary;
    step.flops = kScalarFlops;
  }
  return step;
}

}  // namespace

RowStep RowStepOf(Op op, const Attributes& attributes) {
  switch (op) {
    case Op::kUnary:
    case Op::kUnaryGrad:
      return UnaryStep(std::get<UnaryAttributes>(attributes),
                       op == Op::kUnaryGrad);
    case Op::kBinary:
      return BinaryStep(std::get<BinaryAttributes>(attributes).function);
    case Op::kAdd:
    case Op::kRelu:
    case Op::kReluGrad:
    case Op::kSigmoidGrad:
    case Op::kTanhGrad:
    case Op::kWhere:
    case Op::kCast:
      return {PlainRowFunction(op, attributes), {}, 1};
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kGeluGrad:
      return {PlainRowFunction(op, attributes), {}, kTranscendentalFlops};
    default:
      return {};
  }
}

}  // namespace gpupool::engine
