// Elementwise ops with broadcasting, and casts.
#include <vector>

#include "engine/backends/reference/kernels.h"
#include "engine/base/check.h"
#include "engine/graph/broadcast.h"
#include "engine/graph/fused.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::reference {
namespace {

// Maps element i of a broadcast value to its element in the operand.
class Source {
 public:
  Source(const Shape& from, const Shape& to)
      : same_(from == to), to_(to), strides_(BroadcastStrides(from, to)) {}

  size_t operator()(size_t i) const {
    if (same_) return i;
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    for (int axis = to_.rank() - 1; axis >= 0; --axis) {
      at += rest % to_[axis] * strides_[static_cast<size_t>(axis)];
      rest /= to_[axis];
    }
    return static_cast<size_t>(at);
  }

 private:
  bool same_;
  Shape to_;
  std::vector<int64_t> strides_;
};

Source SourceOf(const Operands& o, size_t input) {
  return {o.in_shape(input), o.out_shape()};
}

// Returns the result of one op on elements. `dtype` is the type of its last
// operand.
double ApplyStep(Op op, const Attributes& attributes, DType dtype,
                 absl::Span<const double> x) {
  switch (op) {
    case Op::kUnary:
      return Apply(std::get<UnaryAttributes>(attributes), x[0]);
    case Op::kUnaryGrad:
      return x[0] * Derivative(std::get<UnaryAttributes>(attributes), x[1]);
    case Op::kBinary:
      return Apply(std::get<BinaryAttributes>(attributes).function, dtype, x[0],
                   x[1]);
    case Op::kWhere:
      return x[0] != 0 ? x[1] : x[2];
    case Op::kCast:
      return x[0];
    case Op::kAdd:
      return x[0] + x[1];
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
      return Activate(ActivationOf(op, attributes), x[0]);
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kSigmoidGrad:
    case Op::kTanhGrad:
      return x[0] * ActivationSlope(ActivationOf(op, attributes), x[1]);
    default:
      GPUPOOL_CHECK(false);
      return 0;
  }
}

// Returns x as its type holds it: integers and bool are rounded, floating
// numbers stay exact.
double Hold(DType dtype, double x) {
  return IsFloating(dtype) ? x : RoundToDType(dtype, x);
}

}  // namespace

void UnaryOp(const Operands& o) {
  const auto& unary = o.node.get<UnaryAttributes>();
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = Apply(unary, o.in(0)[i]);
  }
}

void UnaryGrad(const Operands& o) {
  const auto& unary = o.node.get<UnaryAttributes>();
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = o.in(0)[i] * Derivative(unary, o.in(1)[i]);
  }
}

void BinaryOp(const Operands& o) {
  const BinaryFunction function = o.node.get<BinaryAttributes>().function;
  const Source a = SourceOf(o, 0);
  const Source b = SourceOf(o, 1);
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] =
        Apply(function, o.input_types[0].dtype, o.in(0)[a(i)], o.in(1)[b(i)]);
  }
}

void Where(const Operands& o) {
  const Source condition = SourceOf(o, 0);
  const Source a = SourceOf(o, 1);
  const Source b = SourceOf(o, 2);
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = o.in(0)[condition(i)] != 0 ? o.in(1)[a(i)] : o.in(2)[b(i)];
  }
}

void Cast(const Operands& o) {
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = Hold(o.output_types[0].dtype, o.in(0)[i]);
  }
}

void Broadcast(const Operands& o) {
  const Source x = SourceOf(o, 0);
  for (size_t i = 0; i < o.out().size(); ++i) o.out()[i] = o.in(0)[x(i)];
}

void Fused(const Operands& o) {
  const auto& fused = o.node.get<FusedAttributes>();
  const auto dtypes = FusedOperandTypes(fused, o.input_types);
  GPUPOOL_CHECK(dtypes.ok());
  std::vector<Source> sources;
  for (const TensorType& input : o.input_types) {
    sources.emplace_back(input.shape, fused.shape);
  }
  std::vector<Attributes> attributes;
  for (const FusedStep& step : fused.steps) {
    attributes.push_back(StepAttributes(step));
  }
  Numbers values(dtypes->size());
  Numbers operands;
  for (size_t i = 0; i < o.out().size(); ++i) {
    for (size_t k = 0; k < sources.size(); ++k) {
      values[k] = o.in(k)[sources[k](i)];
    }
    for (size_t s = 0; s < fused.steps.size(); ++s) {
      const FusedStep& step = fused.steps[s];
      operands.clear();
      for (int operand : step.operands) {
        operands.push_back(values[static_cast<size_t>(operand)]);
      }
      const DType dtype = (*dtypes)[static_cast<size_t>(step.operands.back())];
      const size_t at = sources.size() + s;
      // Steps round as separate nodes would.
      values[at] = Hold((*dtypes)[at],
                        ApplyStep(step.op, attributes[s], dtype, operands));
    }
    for (size_t r = 0; r < fused.results.size(); ++r) {
      o.out(r)[i] = values[static_cast<size_t>(fused.results[r])];
    }
  }
}

}  // namespace gpupool::engine::reference
