// Gradients of elementwise ops with broadcasting and of reductions.
#include <vector>

#include "engine/autodiff/formula.h"
#include "engine/autodiff/rules.h"

namespace gpupool::engine::autodiff {
namespace {

// The gradient of one of two operands before it is reduced to its shape.
struct BinaryGradient {
  RuleContext& context;
  Formula& formula;
  ValueId a, b, y, dy;

  ValueId OfDivide(bool first) {
    const ValueId by_b = formula.Binary(BinaryFunction::kDivide, dy, b);
    if (first) return by_b;
    return formula.Unary(UnaryFunction::kNegate,
                         formula.Binary(BinaryFunction::kMultiply, by_b, y));
  }

  // Returns b * a^(b-1), and 0 for b = 0 even if a is 0, where the formula
  // gives 0 * infinity.
  ValueId PowerSlope() {
    const ValueId one = formula.Number(1, b);
    const ValueId zero = formula.Number(0, b);
    const ValueId slope = formula.Binary(
        BinaryFunction::kMultiply, b,
        formula.Binary(BinaryFunction::kPower, a,
                       formula.Binary(BinaryFunction::kSubtract, b, one)));
    return formula.Where(formula.Binary(BinaryFunction::kEqual, b, zero), zero,
                         slope);
  }

  // Returns b * a^(b-1) for a known number b, as most exponents are.
  ValueId KnownPowerSlope(double exponent) {
    if (exponent == 0) return formula.Number(0, a);
    if (exponent == 1) return formula.Number(1, a);
    const ValueId power = exponent == 2
                              ? a
                              : formula.Binary(BinaryFunction::kPower, a,
                                               formula.Number(exponent - 1, a));
    return formula.Binary(BinaryFunction::kMultiply, power,
                          formula.Number(exponent, a));
  }

  // Returns the gradient of a^b. For the exponent it is y log(a), and 0 if a is
  // not positive, because y is then no function of a real exponent.
  ValueId OfPower(bool first) {
    if (first) {
      const Value& exponent = context.builder().value(b);
      const bool known = exponent.kind == ValueKind::kConstant &&
                         exponent.constant.size() == 1;
      return formula.Binary(
          BinaryFunction::kMultiply, dy,
          known ? KnownPowerSlope(exponent.constant[0]) : PowerSlope());
    }
    const ValueId positive =
        formula.Binary(BinaryFunction::kGreater, a, formula.Number(0, a));
    const ValueId log = formula.Unary(
        UnaryFunction::kLog, formula.Where(positive, a, formula.Number(1, a)));
    return formula.Binary(BinaryFunction::kMultiply, dy,
                          formula.Binary(BinaryFunction::kMultiply, y, log));
  }

  // Passes the gradient to the chosen operand; equal operands share it.
  ValueId OfChoice(bool first, bool maximum) {
    const ValueId own = first ? a : b;
    const ValueId other = first ? b : a;
    const ValueId half =
        formula.Binary(BinaryFunction::kMultiply, dy, formula.Number(0.5, dy));
    const ValueId shared =
        formula.Where(formula.Binary(BinaryFunction::kEqual, own, other), half,
                      formula.Number(0, dy));
    const auto beats =
        maximum ? BinaryFunction::kGreater : BinaryFunction::kLess;
    return formula.Where(formula.Binary(beats, own, other), dy, shared);
  }

  // Differentiates y = a - n b, where n is whole and locally constant.
  ValueId OfRemainder(bool first) {
    if (first) return dy;
    const ValueId n = formula.Unary(
        UnaryFunction::kRound,
        formula.Binary(BinaryFunction::kDivide,
                       formula.Binary(BinaryFunction::kSubtract, a, y), b));
    return formula.Unary(UnaryFunction::kNegate,
                         formula.Binary(BinaryFunction::kMultiply, dy, n));
  }

  // Returns the gradient for the function. Invalid for functions of integers
  // and to bool, which pass no gradient.
  ValueId Of(BinaryFunction function, bool first) {
    switch (function) {
      case BinaryFunction::kAdd:
        return dy;
      case BinaryFunction::kSubtract:
        return first ? dy : formula.Unary(UnaryFunction::kNegate, dy);
      case BinaryFunction::kMultiply:
        return formula.Binary(BinaryFunction::kMultiply, dy, first ? b : a);
      case BinaryFunction::kDivide:
        return OfDivide(first);
      case BinaryFunction::kPower:
        return OfPower(first);
      case BinaryFunction::kMinimum:
      case BinaryFunction::kMaximum:
        return OfChoice(first, function == BinaryFunction::kMaximum);
      case BinaryFunction::kModulo:
      case BinaryFunction::kRemainder:
        return OfRemainder(first);
      default:
        return {};
    }
  }
};

void BinaryRule(RuleContext& context, Formula& formula) {
  const auto function = context.node().get<BinaryAttributes>().function;
  BinaryGradient gradient{context,          formula,           context.input(0),
                          context.input(1), context.output(0), context.dy()};
  for (size_t i = 0; i < 2; ++i) {
    if (!context.needs(i)) continue;
    const ValueId whole = gradient.Of(function, i == 0);
    if (!whole.valid()) return;
    context.Set(i, formula.ReduceTo(whole, context.shape(context.input(i))));
  }
}

void WhereRule(RuleContext& context, Formula& formula) {
  const ValueId condition = context.input(0);
  const ValueId dy = context.dy();
  const ValueId zero = formula.Number(0, dy);
  for (size_t i = 1; i < 3; ++i) {
    if (!context.needs(i)) continue;
    const ValueId whole = i == 1 ? formula.Where(condition, dy, zero)
                                 : formula.Where(condition, zero, dy);
    context.Set(i, formula.ReduceTo(whole, context.shape(context.input(i))));
  }
}

// Returns the product of the other numbers. With p the product of the numbers
// that are not zero, it is p / x if no other number is zero (p itself for x =
// 0), else 0.
ValueId ProductSlope(Formula& formula, ValueId x,
                     const std::vector<int>& axes) {
  const ValueId zero = formula.Number(0, x);
  const ValueId one = formula.Number(1, x);
  const ValueId is_zero = formula.Binary(BinaryFunction::kEqual, x, zero);
  const ValueId own = formula.Where(is_zero, one, zero);
  const ValueId all = formula.Reduce(ReduceFunction::kSum, own, axes);
  const ValueId alone = formula.Binary(BinaryFunction::kEqual, all, own);
  const ValueId safe = formula.Where(is_zero, one, x);
  const ValueId product = formula.Reduce(ReduceFunction::kProduct, safe, axes);
  const ValueId quotient =
      formula.Binary(BinaryFunction::kDivide, product, safe);
  return formula.Where(alone, quotient, zero);
}

// Returns dx of the numbers that are the extreme one; equal ones share it.
ValueId ExtremeGradient(Formula& formula, ValueId x, ValueId y, ValueId dy,
                        const std::vector<int>& axes) {
  const ValueId zero = formula.Number(0, x);
  const ValueId one = formula.Number(1, x);
  const ValueId chosen = formula.Binary(BinaryFunction::kEqual, x, y);
  const ValueId count = formula.Reduce(ReduceFunction::kSum,
                                       formula.Where(chosen, one, zero), axes);
  return formula.Where(
      chosen, formula.Binary(BinaryFunction::kDivide, dy, count), zero);
}

void ReduceRule(RuleContext& context, Formula& formula) {
  if (!context.needs(0)) return;
  const auto reduce = context.node().get<ReduceAttributes>();
  const ValueId x = context.input(0);
  const Shape shape = context.shape(x);
  // The output's shape with 1 for the reduced axes.
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  int64_t count = 1;
  for (int axis : reduce.axes) {
    count *= shape[axis];
    dims[static_cast<size_t>(axis)] = 1;
  }
  const Shape kept = *Shape::CreateMaybeEmpty(dims);
  const ValueId dy = formula.Reshape(context.dy(), kept);
  switch (reduce.function) {
    case ReduceFunction::kSum:
      return context.Set(0, formula.Broadcast(dy, shape));
    case ReduceFunction::kMean: {
      const ValueId part =
          formula.Binary(BinaryFunction::kDivide, dy,
                         formula.Number(static_cast<double>(count), x));
      return context.Set(0, formula.Broadcast(part, shape));
    }
    case ReduceFunction::kMax:
    case ReduceFunction::kMin: {
      const ValueId y = formula.Reshape(context.output(0), kept);
      return context.Set(0, ExtremeGradient(formula, x, y, dy, reduce.axes));
    }
    case ReduceFunction::kProduct:
      return context.Set(
          0, formula.Binary(BinaryFunction::kMultiply,
                            ProductSlope(formula, x, reduce.axes), dy));
  }
}

}  // namespace

absl::Status ElementwiseRule(RuleContext& context) {
  const Node& node = context.node();
  Formula formula(&context.builder());
  switch (node.op) {
    case Op::kUnary:
      return context.Emit(0, Op::kUnaryGrad, {context.dy(), context.input(0)},
                          node.attributes);
    case Op::kCumSum: {
      CumSumAttributes back = node.get<CumSumAttributes>();
      // The transpose of a running sum is the running sum from the other end.
      back.reverse = !back.reverse;
      return context.Emit(0, Op::kCumSum, {context.dy()}, back);
    }
    case Op::kCast:
      return context.Emit(
          0, Op::kCast, {context.dy()},
          CastAttributes{context.builder().value(context.input(0)).dtype});
    case Op::kBroadcast:
      context.Set(
          0, formula.ReduceTo(context.dy(), context.shape(context.input(0))));
      break;
    case Op::kBinary:
      BinaryRule(context, formula);
      break;
    case Op::kWhere:
      WhereRule(context, formula);
      break;
    default:
      ReduceRule(context, formula);
      break;
  }
  return formula.status();
}

}  // namespace gpupool::engine::autodiff
