// Movement, indexing, batched products, attention, the less common optimizers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

Shape RandomCoreShape(OpCase& at) {
  switch (at.Pick(0, 3)) {
    case 0:
      return {at.Pick(1, 90)};
    case 1:
      return {at.Pick(1, 300), at.Pick(1, 300)};
    case 2:
      return {at.Pick(1, 9), at.Pick(1, 40), at.Pick(1, 40)};
    default:
      return {at.Pick(1, 3), at.Pick(1, 40), at.Pick(1, 9), at.Pick(1, 64)};
  }
}

// Returns elements of any width.
ValueId AnyElements(OpCase& at, const Shape& shape) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt64, DType::kUint8,
                              DType::kFloat16, DType::kBool};
  const DType dtype = kTypes[at.Pick(0, 4)];
  return at.Integers(shape, dtype, 0, dtype == DType::kBool ? 1 : 100);
}

void BuildTranspose(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  TransposeAttributes transpose;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    transpose.permutation.insert(
        transpose.permutation.begin() + at.Pick(0, axis), axis);
  }
  at.Emit(Op::kTranspose, {AnyElements(at, shape)}, transpose);
}

SliceAttributes RandomSlice(OpCase& at, const Shape& shape) {
  SliceAttributes slice;
  for (const int64_t dim : shape.dims()) {
    const int64_t step = at.Coin() ? 1 : at.Pick(1, 3);
    const int64_t size = at.Pick(1, (dim + step - 1) / step);
    const int64_t reach = (size - 1) * step;
    const int64_t start = at.Pick(0, dim - 1 - reach);
    const bool backwards = at.Pick(0, 3) == 0;
    slice.starts.push_back(backwards ? start + reach : start);
    slice.steps.push_back(backwards ? -step : step);
    slice.sizes.push_back(size);
  }
  return slice;
}

void BuildSlice(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  at.Emit(Op::kSlice, {AnyElements(at, shape)}, RandomSlice(at, shape));
}

void BuildSliceGrad(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  const SliceAttributes slice = RandomSlice(at, shape);
  at.Emit(Op::kSliceGrad, {at.Floats(*Shape::Create(slice.sizes))},
          SliceGradAttributes{slice, shape});
}

PadAttributes RandomPad(OpCase& at, const Shape& shape) {
  PadAttributes pad;
  pad.mode = static_cast<PadMode>(at.Pick(0, 2));
  pad.value = at.Coin() ? 0 : 3;
  for (const int64_t dim : shape.dims()) {
    const int64_t most =
        pad.mode == PadMode::kReflect ? std::min<int64_t>(dim - 1, 3) : 3;
    pad.before.push_back(at.Pick(0, most));
    pad.after.push_back(at.Pick(0, most));
  }
  return pad;
}

void BuildPad(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  at.Emit(Op::kPad, {AnyElements(at, shape)}, RandomPad(at, shape));
}

void BuildPadGrad(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  const PadAttributes pad = RandomPad(at, shape);
  std::vector<int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    dims.push_back(shape[axis] + pad.before[i] + pad.after[i]);
  }
  at.Emit(Op::kPadGrad, {at.Floats(*Shape::Create(dims))}, pad);
}

void BuildConcat(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  const auto axis = static_cast<size_t>(at.Pick(0, shape.rank() - 1));
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  std::vector<ValueId> inputs = {AnyElements(at, shape)};
  const DType dtype = at.graph().value(inputs[0]).dtype;
  for (int64_t i = at.Pick(0, 3); i > 0; --i) {
    dims[axis] = at.Pick(1, 9);
    inputs.push_back(at.Integers(*Shape::Create(dims), dtype, 0, 1));
  }
  at.Emit(Op::kConcat, inputs, AxisAttributes{static_cast<int>(axis)});
}

void BuildBroadcast(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  std::vector<int64_t> dims;
  for (const int64_t dim : shape.dims()) {
    dims.push_back(at.Coin() ? 1 : dim);
  }
  if (at.Coin()) dims.erase(dims.begin());
  at.Emit(Op::kBroadcast, {AnyElements(at, *Shape::Create(dims))},
          ShapeAttributes{shape});
}

ValueId Indices(OpCase& at, const Shape& shape, int64_t dim) {
  const DType dtype = at.Coin() ? DType::kInt32 : DType::kInt64;
  return at.Integers(shape, dtype, -dim, dim - 1);
}

void BuildGather(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  const int axis = static_cast<int>(at.Pick(0, shape.rank() - 1));
  const Shape owns[] = {{}, {at.Pick(1, 20)}, {at.Pick(1, 20), at.Pick(1, 3)}};
  const Shape& own = owns[at.Pick(0, 2)];
  const ValueId x = AnyElements(at, shape);
  at.Emit(Op::kGather, {x, Indices(at, own, shape[axis])},
          AxisAttributes{axis});
}

void BuildGatherGrad(OpCase& at) {
  const Shape shape = RandomCoreShape(at);
  const int axis = static_cast<int>(at.Pick(0, shape.rank() - 1));
  const int64_t count = at.Pick(1, 30);
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[static_cast<size_t>(axis)] = count;
  const ValueId dy = at.Floats(*Shape::Create(dims));
  at.Emit(Op::kGatherGrad, {dy, Indices(at, {count}, shape[axis])},
          GatherGradAttributes{axis, shape});
}

void BuildGatherElements(OpCase& at) {
  const Shape shape{at.Pick(1, 9), at.Pick(1, 9)};
  const ValueId x = AnyElements(at, shape);
  at.Emit(Op::kGatherElements, {x, Indices(at, {shape[0], 4}, shape[1])},
          AxisAttributes{1});
}

void BuildGatherNd(OpCase& at) {
  const Shape shape{at.Pick(2, 9), at.Pick(2, 9), at.Pick(1, 9)};
  const ValueId x = AnyElements(at, shape);
  at.Emit(Op::kGatherNd, {x, at.Integers({5, 2}, DType::kInt64, -2, 1)},
          GatherNdAttributes{});
}

// Turns an input of the case into a constant, which kernels may prepare.
void MakeConstant(OpCase& at, ValueId id) {
  Value& value = at.graph().mutable_value(id);
  value.kind = ValueKind::kConstant;
  value.memory_class = MemoryClass::kIo;
  value.constant = at.inputs.at(value.name);
  at.inputs.erase(value.name);
}

// Leaves come first and lead to themselves. Other slots lead to slots before
// them. A number is NaN, as is a threshold's neighbour.
void BuildTreeWalk(OpCase& at) {
  const int64_t slots = at.Pick(1, 60);
  const int64_t cells = at.Pick(1, 9);
  const ValueId x = at.CoarseFloats({at.Pick(1, 150), cells});
  at.inputs[at.graph().value(x).name][0] = std::nan("");
  const ValueId columns =
      at.Integers({slots}, DType::kInt32, -cells, cells - 1);
  const ValueId thresholds = at.CoarseFloats({slots});
  const ValueId larger = at.Integers({slots}, DType::kInt32, 0, 0);
  const ValueId smaller = at.Integers({slots}, DType::kInt32, 0, 0);
  for (const ValueId links : {larger, smaller}) {
    auto& numbers = at.inputs[at.graph().value(links).name];
    for (int64_t i = 0; i < slots; ++i) {
      numbers[static_cast<size_t>(i)] = static_cast<double>(
          i < slots / 2 ? i : at.Pick(0, std::max<int64_t>(i - 1, 0)));
    }
  }
  const ValueId roots =
      at.Integers({at.Pick(1, 40)}, DType::kInt32, 0, slots - 1);
  at.Emit(Op::kTreeWalk, {x, columns, thresholds, larger, smaller, roots},
          TreeWalkAttributes{at.Pick(0, 30)});
  if (at.Coin()) {
    for (const ValueId id : {columns, thresholds, larger, smaller, roots}) {
      MakeConstant(at, id);
    }
  }
}

void BuildBlockedMatMul(OpCase& at) {
  BlockedMatMulAttributes matmul;
  matmul.bits = at.Coin() ? 4 : 8;
  matmul.with_zeros = at.Coin();
  const int64_t columns = at.Pick(1, 150);
  const int64_t blocks = at.Pick(1, 5);
  const int64_t bytes = int64_t{4} << at.Pick(0, 4);
  const int64_t inner = blocks * bytes * 8 / matmul.bits;
  std::vector<ValueId> inputs{
      at.Floats({at.Coin() ? 1 : at.Pick(1, 40), inner}, -1, 1),
      at.Integers({columns, blocks, bytes}, DType::kUint8, 0, 255),
      at.Floats({columns, blocks}, -0.1, 0.1)};
  if (matmul.with_zeros) {
    const int64_t packed = (blocks * matmul.bits + 7) / 8;
    inputs.push_back(
        at.Coin() ? at.Floats({columns, blocks}, 0, 15)
                  : at.Integers({columns, packed}, DType::kUint8, 0, 255));
  }
  at.Emit(Op::kBlockedMatMul, inputs, matmul);
}

void BuildScatterElements(OpCase& at) {
  const Shape shape{at.Pick(1, 9), at.Pick(1, 9)};
  const ScatterAttributes scatter{
      0, at.Coin() ? ScatterReduction::kAdd : ScatterReduction::kMaximum};
  const ValueId x = at.Floats(shape);
  const ValueId indices = Indices(at, {3, shape[1]}, shape[0]);
  at.Emit(Op::kScatterElements, {x, indices, at.Floats({3, shape[1]})},
          scatter);
}

void BuildScatterNd(OpCase& at) {
  const Shape shape{at.Pick(2, 9), at.Pick(1, 9)};
  const ValueId x = at.Floats(shape);
  const ValueId indices = at.Integers({3, 1}, DType::kInt64, -2, 1);
  at.Emit(Op::kScatterNd, {x, indices, at.Floats({3, shape[1]})},
          ScatterAttributes{0, ScatterReduction::kAdd});
}

void BuildTopK(OpCase& at) {
  const Shape shape{at.Pick(1, 9), at.Pick(1, 30)};
  TopKAttributes top_k;
  top_k.axis = 1;
  top_k.k = at.Pick(1, shape[1]);
  top_k.largest = at.Coin();
  at.Emit(Op::kTopK, {at.CoarseFloats(shape)}, top_k);
}

void BuildRandom(OpCase& at) {
  RandomAttributes random;
  random.distribution =
      at.Coin() ? RandomDistribution::kUniform : RandomDistribution::kNormal;
  random.stream = static_cast<uint64_t>(at.Pick(0, 99));
  random.shape = {at.Pick(1, 99)};
  at.Emit(Op::kRandom,
          {at.Integers({}, DType::kInt64, 0, 1000),
           at.Integers({}, DType::kInt64, 1, 1000)},
          random);
}

ResizeAttributes RandomResize(OpCase& at, const Shape& x) {
  ResizeAxis axis;
  axis.axis = 2;
  axis.size = at.Pick(1, 9);
  axis.taps = 2;
  for (int64_t i = 0; i < 2 * axis.size; ++i) {
    axis.indices.push_back(at.Pick(0, x[2] - 1));
    axis.weights.push_back(i % 2 == 0 ? 0.25 : 0.75);
  }
  return {{axis}};
}

void BuildResize(OpCase& at) {
  const Shape x{2, at.Pick(1, 5), at.Pick(1, 9), at.Pick(1, 9)};
  at.Emit(Op::kResize, {at.Floats(x)}, RandomResize(at, x));
}

void BuildResizeGrad(OpCase& at) {
  const Shape x{2, at.Pick(1, 5), at.Pick(1, 9), at.Pick(1, 9)};
  const ResizeAttributes resize = RandomResize(at, x);
  at.Emit(Op::kResizeGrad, {at.Floats({2, x[1], resize.axes[0].size, x[3]})},
          ResizeGradAttributes{resize, x});
}

void BuildLrn(OpCase& at, bool gradient) {
  const Shape x{2, at.Pick(1, 9), at.Pick(1, 9), at.Pick(1, 9)};
  std::vector<ValueId> inputs = {at.Floats(x)};
  if (gradient) inputs.push_back(at.Floats(x));
  at.Emit(gradient ? Op::kLrnGrad : Op::kLrn, inputs,
          LrnAttributes{0.1, 0.75, 1, 3});
}

void BuildLogSoftmax(OpCase& at, bool gradient) {
  const Shape x{at.Pick(1, 90), at.Pick(1, 300)};
  std::vector<ValueId> inputs = {at.Floats(x, -9, 9)};
  if (gradient) inputs.push_back(at.Floats(x, -6, 0));
  at.Emit(gradient ? Op::kLogSoftmaxGrad : Op::kLogSoftmax, inputs);
}

void BuildBatchMatMul(OpCase& at) {
  const int64_t m = at.Pick(1, 70), n = at.Pick(1, 70), k = at.Pick(1, 70);
  const BatchMatMulAttributes attributes{at.Coin(), at.Coin(),
                                         at.Coin() ? 1 : 0.125};
  std::vector<int64_t> batch = {at.Pick(1, 3), at.Pick(1, 5)};
  std::vector<int64_t> a = at.Coin() ? batch : std::vector<int64_t>{batch[1]};
  std::vector<int64_t> b = at.Coin() ? batch : std::vector<int64_t>{1};
  const auto add = [](std::vector<int64_t>& dims, int64_t rows, int64_t columns,
                      bool transposed) {
    dims.push_back(transposed ? columns : rows);
    dims.push_back(transposed ? rows : columns);
  };
  add(a, m, k, attributes.transpose_a);
  add(b, k, n, attributes.transpose_b);
  const ValueId first = at.Floats(*Shape::Create(a));
  at.Emit(Op::kBatchMatMul, {first, at.Floats(*Shape::Create(b))}, attributes);
}

// Builds an op of a decoder whose cache is empty: of [2, 3, 0, 4], and of a
// token [2, 3, 1, 4].
void BuildEmptyInputs(OpCase& at) {
  const ValueId cache = at.Floats(*Shape::CreateMaybeEmpty({2, 3, 0, 4}));
  switch (at.Pick(0, 7)) {
    case 0:
      return at.Emit(Op::kConcat, {cache, at.Floats({2, 3, 1, 4})},
                     AxisAttributes{2});
    case 1:
      return at.Emit(Op::kConcat, {cache, cache}, AxisAttributes{3});
    case 2:
      return at.Emit(Op::kSlice, {at.Floats({2, 3, 5, 4})},
                     SliceAttributes{{0, 0, 5, 0}, {1, 1, 1, 1}, {2, 3, 0, 4}});
    case 3:  // no keys: no scores
      return at.Emit(Op::kBatchMatMul, {at.Floats({2, 3, 1, 4}), cache},
                     BatchMatMulAttributes{false, true, 0.5});
    case 4:  // a sum of nothing
      return at.Emit(Op::kBatchMatMul,
                     {at.Floats(*Shape::CreateMaybeEmpty({2, 3, 1, 0})), cache},
                     BatchMatMulAttributes{});
    case 5:
      return at.Emit(Op::kSoftmax,
                     {at.Floats(*Shape::CreateMaybeEmpty({2, 3, 1, 0}))});
    case 6:
      return at.Emit(Op::kTranspose, {cache},
                     TransposeAttributes{{0, 2, 1, 3}});
    default:
      return at.Emit(Op::kReshape, {cache},
                     ShapeAttributes{*Shape::CreateMaybeEmpty({2, 0, 12})});
  }
}

struct AttentionSizes {
  int64_t b, h, t, s, d, e;
};

AttentionSizes RandomAttention(OpCase& at) {
  return {at.Pick(1, 2),  at.Pick(1, 4),  at.Pick(1, 140),
          at.Pick(1, 80), at.Pick(1, 40), at.Pick(1, 40)};
}

Shape RandomMask(OpCase& at, const AttentionSizes& z) {
  switch (at.Pick(0, 3)) {
    case 0:
      return {z.b, 1, 1, z.s};
    case 1:
      return {z.t, z.s};
    case 2:
      return {z.h, z.t, 1};
    default:
      return {z.b, z.h, z.t, z.s};
  }
}

void BuildAttention(OpCase& at) {
  const AttentionSizes z = RandomAttention(at);
  std::vector<ValueId> inputs = {at.Floats({z.b, z.h, z.t, z.d}),
                                 at.Floats({z.b, z.h, z.s, z.d}),
                                 at.Floats({z.b, z.h, z.s, z.e})};
  if (at.Coin()) inputs.push_back(at.Floats(RandomMask(at, z)));
  // With fewer keys than queries, the first queries see no key, and their log
  // of the sum is -infinity, which cannot be compared.
  const bool causal = at.Coin();
  at.Emit(Op::kAttention, inputs,
          AttentionAttributes{0.3, causal, !causal || z.s >= z.t});
}

void BuildAttentionGrad(OpCase& at) {
  const AttentionSizes z = RandomAttention(at);
  std::vector<ValueId> inputs = {
      at.Floats({z.b, z.h, z.t, z.e}), at.Floats({z.b, z.h, z.t, z.d}),
      at.Floats({z.b, z.h, z.s, z.d}), at.Floats({z.b, z.h, z.s, z.e}),
      at.Floats({z.b, z.h, z.t, z.e}), at.Floats({z.b, z.h, z.t}, 4, 8)};
  if (at.Coin()) inputs.push_back(at.Floats(RandomMask(at, z)));
  at.Emit(Op::kAttentionGrad, inputs,
          AttentionAttributes{0.3, at.Coin(), true});
}

Shape RandomParameter(OpCase& at) {
  return at.Coin() ? Shape{at.Pick(1, 90)}
                   : Shape{at.Pick(1, 300), at.Pick(1, 900)};
}

// Adds parameter, gradient, rate, step, a state of [low, low + 1) for each of
// `lows`, and the clip coefficient if the attributes have one.
template <typename StepAttributes>
void EmitStep(OpCase& at, Op op, const StepAttributes& attributes,
              const std::vector<double>& lows) {
  const Shape shape = RandomParameter(at);
  std::vector<ValueId> inputs = {at.Weights(shape), at.Floats(shape, 0.1, 2),
                                 at.Scalar(DType::kFloat64, 0.01),
                                 at.Integers({}, DType::kInt64, 1, 9)};
  std::vector<ValueId> updated = {inputs[0]};
  for (const double low : lows) {
    updated.push_back(at.Weights(shape, low, low + 1));
    inputs.push_back(updated.back());
  }
  if (attributes.clip) inputs.push_back(at.Floats({}, 0.1, 1));
  at.EmitUpdate(op, inputs, attributes, updated);
}

void BuildRmspropStep(OpCase& at) {
  RmspropAttributes rmsprop;
  rmsprop.weight_decay = at.Coin() ? 0.1 : 0;
  rmsprop.momentum = at.Coin() ? 0.9 : 0;
  rmsprop.centered = at.Coin();
  rmsprop.clip = at.Coin();
  // The running square must exceed the square of the running mean.
  std::vector<double> lows = {1};
  if (rmsprop.momentum != 0) lows.push_back(-0.5);
  if (rmsprop.centered) lows.push_back(-0.5);
  EmitStep(at, Op::kRmspropStep, rmsprop, lows);
}

void BuildAdagradStep(OpCase& at) {
  AdagradAttributes adagrad;
  adagrad.lr_decay = at.Coin() ? 0.5 : 0;
  adagrad.weight_decay = at.Coin() ? 0.1 : 0;
  adagrad.clip = at.Coin();
  EmitStep(at, Op::kAdagradStep, adagrad, {1});
}

void BuildLionStep(OpCase& at) {
  LionAttributes lion;
  lion.weight_decay = at.Coin() ? 0.1 : 0;
  lion.clip = at.Coin();
  EmitStep(at, Op::kLionStep, lion, {1});
}

void BuildAdamaxStep(OpCase& at) {
  AdamaxAttributes adamax;
  adamax.weight_decay = at.Coin() ? 0.1 : 0;
  adamax.clip = at.Coin();
  // Division by a norm near 0 would only measure rounding.
  EmitStep(at, Op::kAdamaxStep, adamax, {-0.5, 1});
}

void BuildEmaUpdate(OpCase& at) {
  const Shape shape = RandomParameter(at);
  const ValueId average = at.Weights(shape);
  at.EmitUpdate(Op::kEmaUpdate, {average, at.Floats(shape)}, EmaAttributes{0.9},
                {average});
}

}  // namespace

std::vector<OpCaseMaker> CoreOpCases() {
  return {
      {"Transpose", BuildTranspose, 0},
      {"Slice", BuildSlice, 0},
      {"SliceGrad", BuildSliceGrad, 0},
      {"Pad", BuildPad, 0},
      {"PadGrad", BuildPadGrad, 1e-6},
      {"Concat", BuildConcat, 0},
      {"EmptyInputs", BuildEmptyInputs, 0},
      {"Broadcast", BuildBroadcast, 0},
      {"Gather", BuildGather, 0},
      {"GatherGrad", BuildGatherGrad, 1e-6},
      {"GatherElements", BuildGatherElements, 0},
      {"GatherNd", BuildGatherNd, 0},
      {"TreeWalk", BuildTreeWalk, 0},
      {"BlockedMatMul", BuildBlockedMatMul, 1e-5},
      {"ScatterElements", BuildScatterElements, 1e-6},
      {"ScatterNd", BuildScatterNd, 1e-6},
      {"TopK", BuildTopK, 0},
      {"Random", BuildRandom, 1e-6},
      {"Resize", BuildResize},
      {"ResizeGrad", BuildResizeGrad},
      {"Lrn", [](OpCase& at) { BuildLrn(at, false); }},
      {"LrnGrad", [](OpCase& at) { BuildLrn(at, true); }},
      {"LogSoftmax", [](OpCase& at) { BuildLogSoftmax(at, false); }},
      {"LogSoftmaxGrad", [](OpCase& at) { BuildLogSoftmax(at, true); }, 1e-5},
      {"BatchMatMul", BuildBatchMatMul, 1e-5},
      {"Attention", BuildAttention, 1e-5},
      {"AttentionGrad", BuildAttentionGrad, 3e-5},
      {"RmspropStep", BuildRmspropStep, 5e-6},
      {"AdagradStep", BuildAdagradStep, 5e-6},
      {"LionStep", BuildLionStep, 5e-6},
      {"AdamaxStep", BuildAdamaxStep, 5e-6},
      {"EmaUpdate", BuildEmaUpdate},
  };
}

}  // namespace gpupool::engine
