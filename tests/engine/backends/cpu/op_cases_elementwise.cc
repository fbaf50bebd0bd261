// Elementwise ops with broadcasting, fused expressions, reductions.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/graph/broadcast.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

// Returns sizes around the width of vectors and tiles.
int64_t RandomCount(OpCase& at) {
  constexpr int64_t kCounts[] = {1, 7, 8, 9, 15, 16, 17, 1000, 1024, 5000};
  return kCounts[at.Pick(0, 9)];
}

Shape RandomCells(OpCase& at) {
  switch (at.Pick(0, 3)) {
    case 0:
      return {RandomCount(at)};
    case 1:
      return {at.Pick(1, 20), RandomCount(at)};
    case 2:
      return {at.Pick(1, 90), at.Pick(1, 3000)};  // sometimes split
    default:
      return {at.Pick(1, 3), at.Pick(1, 20), at.Pick(1, 9), at.Pick(1, 9)};
  }
}

struct UnaryRange {
  UnaryFunction function;
  double low, high;
  double alpha = 0, beta = 0;
};

// Ranges in which f is finite and its derivative moderate.
const UnaryRange kUnaryRanges[] = {
    {UnaryFunction::kAbs, -2, 2},
    {UnaryFunction::kNegate, -2, 2},
    {UnaryFunction::kSign, -2, 2},
    {UnaryFunction::kClip, -2, 2, -0.5, 1},
    {UnaryFunction::kExp, -20, 5},
    {UnaryFunction::kLog, 0.01, 20},
    {UnaryFunction::kSqrt, 0.01, 20},
    {UnaryFunction::kReciprocal, 0.3, 4},
    {UnaryFunction::kFloor, -9, 9},
    {UnaryFunction::kCeil, -9, 9},
    {UnaryFunction::kRound, -9, 9},
    {UnaryFunction::kSin, -9, 9},
    {UnaryFunction::kCos, -9, 9},
    {UnaryFunction::kTan, -1, 1},
    {UnaryFunction::kAsin, -0.9, 0.9},
    {UnaryFunction::kAcos, -0.9, 0.9},
    {UnaryFunction::kAtan, -9, 9},
    {UnaryFunction::kSinh, -4, 4},
    {UnaryFunction::kCosh, -4, 4},
    {UnaryFunction::kAsinh, -9, 9},
    {UnaryFunction::kAcosh, 1.1, 9},
    {UnaryFunction::kAtanh, -0.9, 0.9},
    {UnaryFunction::kErf, -4, 4},
    {UnaryFunction::kLeakyRelu, -4, 4, 0.1},
    {UnaryFunction::kElu, -9, 4, 1.5},
    {UnaryFunction::kSelu, -9, 4, 1.67, 1.05},
    {UnaryFunction::kCelu, -9, 4, 1.5},
    {UnaryFunction::kSoftplus, -40, 40},
    {UnaryFunction::kSoftsign, -9, 9},
    {UnaryFunction::kHardSigmoid, -9, 9, 0.2, 0.5},
    {UnaryFunction::kHardSwish, -9, 9},
    {UnaryFunction::kSilu, -40, 40},
    {UnaryFunction::kMish, -40, 40},
    {UnaryFunction::kShrink, -2, 2, 0.5, 0.3},
    {UnaryFunction::kThresholdedRelu, -2, 2, 0.5},
    {UnaryFunction::kIsNan, -2, 2},
    {UnaryFunction::kIsInf, -2, 2},
};

bool GivesTruth(UnaryFunction function) {
  return function == UnaryFunction::kIsNan || function == UnaryFunction::kIsInf;
}

std::vector<OpCaseMaker> UnaryCases() {
  std::vector<OpCaseMaker> cases;
  for (const UnaryRange& range : kUnaryRanges) {
    const UnaryAttributes attributes{range.function, range.alpha, range.beta};
    const int number = static_cast<int>(range.function);
    cases.push_back({absl::StrCat("Unary", number), [=](OpCase& at) {
                       at.Emit(
                           Op::kUnary,
                           {at.Floats(RandomCells(at), range.low, range.high)},
                           attributes);
                     }});
    if (GivesTruth(range.function)) continue;
    cases.push_back(
        {absl::StrCat("UnaryGrad", number), [=](OpCase& at) {
           const Shape shape = RandomCells(at);
           at.Emit(Op::kUnaryGrad,
                   {at.Floats(shape), at.Floats(shape, range.low, range.high)},
                   attributes);
         }});
  }
  return cases;
}

// Returns a shape that broadcasts to `shape`: a scalar, row, column or channel.
Shape Narrowed(OpCase& at, const Shape& shape) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  switch (at.Pick(0, 4)) {
    case 0:
      return shape;
    case 1:
      return {};
    case 2:
      return {shape[shape.rank() - 1]};
    case 3:
      dims.back() = 1;
      return *Shape::Create(dims);
    default:
      for (int64_t& dim : dims) dim = at.Coin() ? 1 : dim;
      return *Shape::Create(dims);
  }
}

std::pair<Shape, Shape> BroadcastPair(OpCase& at) {
  const Shape shape = RandomCells(at);
  return {Narrowed(at, shape), Narrowed(at, shape)};
}

bool TakesTruth(BinaryFunction function) {
  return function == BinaryFunction::kAnd || function == BinaryFunction::kOr ||
         function == BinaryFunction::kXor;
}

bool TakesIntegersOnly(BinaryFunction function) {
  return function == BinaryFunction::kShiftLeft ||
         function == BinaryFunction::kShiftRight;
}

ValueId BinaryOperand(OpCase& at, BinaryFunction function, const Shape& shape,
                      DType dtype) {
  if (TakesTruth(function) && dtype == DType::kFloat32) {
    return at.Integers(shape, DType::kBool, 0, 1);
  }
  if (TakesIntegersOnly(function)) return at.Integers(shape, dtype, 0, 70);
  if (dtype != DType::kFloat32) {
    return at.Integers(shape, dtype, 1, 5);
  }
  if (function >= BinaryFunction::kMinimum) return at.CoarseFloats(shape);
  return at.Floats(shape, 0.5, 3);
}

// The modulo has jumps, so only exact numbers can be compared.
std::vector<OpCaseMaker> BinaryCases() {
  std::vector<OpCaseMaker> cases;
  for (int i = 0; i < kBinaryFunctionCount; ++i) {
    const auto function = static_cast<BinaryFunction>(i);
    const bool modulo = function == BinaryFunction::kModulo ||
                        function == BinaryFunction::kRemainder;
    cases.push_back({absl::StrCat("Binary", i),
                     [=](OpCase& at) {
                       const auto [a, b] = BroadcastPair(at);
                       constexpr DType kTypes[] = {DType::kInt32, DType::kInt64,
                                                   DType::kUint8, DType::kInt8};
                       DType dtype = kTypes[at.Pick(0, 3)];
                       if (!TakesIntegersOnly(function) && !modulo &&
                           at.Pick(0, 3) != 0) {
                         dtype = DType::kFloat32;
                       }
                       at.Emit(Op::kBinary,
                               {BinaryOperand(at, function, a, dtype),
                                BinaryOperand(at, function, b, dtype)},
                               BinaryAttributes{function});
                     },
                     3e-6});
  }
  return cases;
}

void BuildNot(OpCase& at) {
  at.Emit(Op::kUnary, {at.Integers(RandomCells(at), DType::kBool, 0, 1)},
          UnaryAttributes{UnaryFunction::kNot});
}

void BuildWhere(OpCase& at) {
  const Shape shape = RandomCells(at);
  const bool integers = at.Pick(0, 3) == 0;
  const auto operand = [&] {
    const Shape own = Narrowed(at, shape);
    return integers ? at.Integers(own, DType::kInt64, -9, 9) : at.Floats(own);
  };
  const ValueId condition =
      at.Integers(Narrowed(at, shape), DType::kBool, 0, 1);
  const ValueId a = operand();
  at.Emit(Op::kWhere, {condition, a, operand()});
}

constexpr DType kAllTypes[] = {DType::kFloat32, DType::kFloat64,  DType::kInt32,
                               DType::kInt64,   DType::kUint8,    DType::kBool,
                               DType::kFloat16, DType::kBFloat16, DType::kInt8};

void BuildCast(OpCase& at) {
  const DType from = kAllTypes[at.Pick(0, 8)];
  const ValueId x =
      at.Integers(RandomCells(at), from, 0, from == DType::kBool ? 1 : 100);
  at.Emit(Op::kCast, {x}, CastAttributes{kAllTypes[at.Pick(0, 8)]});
}

// Builds a random expression over float32 and bool with one or two results.
void BuildFused(OpCase& at) {
  FusedAttributes fused;
  fused.shape = RandomCells(at);
  std::vector<ValueId> inputs = {at.Floats(fused.shape)};
  std::vector<int> floats = {0};
  for (int64_t i = at.Pick(0, 3); i > 0; --i) {
    floats.push_back(static_cast<int>(inputs.size()));
    inputs.push_back(at.Floats(Narrowed(at, fused.shape)));
  }
  std::vector<int> truths = {static_cast<int>(inputs.size())};
  inputs.push_back(at.Integers(Narrowed(at, fused.shape), DType::kBool, 0, 1));
  const auto any = [&](const std::vector<int>& of) {
    return of[static_cast<size_t>(
        at.Pick(0, static_cast<int64_t>(of.size()) - 1))];
  };
  const int64_t steps = at.Pick(1, 12);
  for (int64_t s = 0; s < steps; ++s) {
    const int result = static_cast<int>(inputs.size()) + static_cast<int>(s);
    const BinaryFunction kBinaries[] = {
        BinaryFunction::kAdd, BinaryFunction::kSubtract,
        BinaryFunction::kMaximum, BinaryFunction::kMinimum};
    switch (s + 1 == steps ? 0 : at.Pick(0, 6)) {
      case 0:
        fused.steps.push_back({Op::kBinary,
                               BinaryAttributes{kBinaries[at.Pick(0, 3)]},
                               {any(floats), any(floats)}});
        break;
      case 1:
        fused.steps.push_back({Op::kTanh, {}, {any(floats)}});
        break;
      case 2:
        fused.steps.push_back(
            {Op::kUnary, UnaryAttributes{UnaryFunction::kAbs}, {any(floats)}});
        break;
      case 3:
        fused.steps.push_back(
            {Op::kWhere, {}, {any(truths), any(floats), any(floats)}});
        break;
      case 4:
        fused.steps.push_back(
            {Op::kCast, CastAttributes{DType::kFloat32}, {any(truths)}});
        break;
      case 5:
        fused.steps.push_back({Op::kGelu, GeluAttributes{}, {any(floats)}});
        break;
      default:
        fused.steps.push_back(
            {Op::kUnary, UnaryAttributes{UnaryFunction::kNot}, {any(truths)}});
        truths.push_back(result);
        continue;
    }
    floats.push_back(result);
  }
  const int last =
      static_cast<int>(inputs.size()) + static_cast<int>(steps) - 1;
  fused.results = {last};
  if (at.Coin()) {
    fused.results.push_back(
        static_cast<int>(at.Pick(static_cast<int64_t>(inputs.size()), last)));
  }
  at.Emit(Op::kFused, inputs, fused);
}

Shape AnyShape(OpCase& at) {
  switch (at.Pick(0, 5)) {
    case 0:
      return {at.Pick(1, 9), at.Pick(1, 9), at.Pick(1, 30)};
    case 1:
      return {at.Pick(1, 3), at.Pick(1, 5), at.Pick(1, 9), at.Pick(1, 20)};
    case 2:
      return {at.Pick(1, 400), at.Pick(1, 600)};
    case 3:
      return {at.Pick(1, 3), at.Pick(1, 70), at.Pick(1, 2500)};
    case 4:
      return {at.Pick(1, 400'000)};
    default:
      return {at.Pick(1, 3), at.Pick(1, 3), at.Pick(1, 3),
              at.Pick(1, 3), at.Pick(1, 3), at.Pick(1, 3)};
  }
}

void BuildReduce(OpCase& at, ReduceFunction function) {
  const Shape shape = AnyShape(at);
  ReduceAttributes reduce{function, {}, at.Coin()};
  while (reduce.axes.empty()) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (at.Coin()) reduce.axes.push_back(axis);
    }
  }
  if (function == ReduceFunction::kProduct) {
    at.Emit(Op::kReduce, {at.Floats(shape, 0.999, 1.001)}, reduce);
  } else if (at.Pick(0, 4) == 0) {
    at.Emit(Op::kReduce, {at.Integers(shape, DType::kInt64, -9, 9)}, reduce);
  } else {
    at.Emit(Op::kReduce, {at.Floats(shape)}, reduce);
  }
}

void BuildArgReduce(OpCase& at) {
  const Shape shape = AnyShape(at);
  const int axis = static_cast<int>(at.Pick(0, shape.rank() - 1));
  at.Emit(Op::kArgReduce, {at.CoarseFloats(shape)},
          ArgReduceAttributes{at.Coin(), axis, at.Coin(), at.Coin()});
}

void BuildCumSum(OpCase& at) {
  const Shape shape{at.Pick(1, 9), at.Pick(1, 70), at.Pick(1, 9)};
  const int axis = static_cast<int>(at.Pick(0, 2));
  const CumSumAttributes sum{axis, at.Coin(), at.Coin()};
  if (at.Coin()) return at.Emit(Op::kCumSum, {at.Floats(shape)}, sum);
  at.Emit(Op::kCumSum, {at.Integers(shape, DType::kInt32, -9, 9)}, sum);
}

}  // namespace

std::vector<OpCaseMaker> ElementwiseOpCases() {
  std::vector<OpCaseMaker> cases = UnaryCases();
  for (OpCaseMaker& maker : BinaryCases()) cases.push_back(std::move(maker));
  cases.push_back({"Not", BuildNot, 0});
  cases.push_back({"Where", BuildWhere, 0});
  cases.push_back({"Cast", BuildCast, 0});
  cases.push_back({"Fused", BuildFused, 5e-6});
  for (int i = 0; i < 5; ++i) {
    cases.push_back(
        {absl::StrCat("Reduce", i),
         [=](OpCase& at) { BuildReduce(at, static_cast<ReduceFunction>(i)); },
         3e-5});
  }
  cases.push_back({"ArgReduce", BuildArgReduce, 0});
  cases.push_back({"CumSum", BuildCumSum, 5e-6});
  return cases;
}

}  // namespace gpupool::engine
