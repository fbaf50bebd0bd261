// Ops on codes of 8 bits. Scales are powers of two and sums are small, so that
// every back end computes the same numbers. Some are halfway between two codes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/graph/window.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

DType PickCodeType(OpCase& at) {
  return at.Coin() ? DType::kUint8 : DType::kInt8;
}

int LeastOf(DType dtype) { return dtype == DType::kUint8 ? 0 : -128; }
int MostOf(DType dtype) { return dtype == DType::kUint8 ? 255 : 127; }

int PickCode(OpCase& at, DType dtype) {
  return static_cast<int>(at.Pick(LeastOf(dtype), MostOf(dtype)));
}

ValueId Codes(OpCase& at, const Shape& shape, DType dtype) {
  return at.Integers(shape, dtype, LeastOf(dtype), MostOf(dtype));
}

double PickScale(OpCase& at) {
  return std::exp2(-static_cast<double>(at.Pick(0, 6)));
}

// Returns the whole range, the codes from the zero point on (a relu), or any
// part of the range.
CodeRange PickRange(OpCase& at, DType dtype) {
  CodeRange range{.dtype = dtype,
                  .zero = at.Coin() ? PickCode(at, dtype) : 0,
                  .low = LeastOf(dtype),
                  .high = MostOf(dtype)};
  const int64_t kind = at.Pick(0, 2);
  if (kind == 1) range.low = range.zero;
  if (kind == 2) {
    const auto [low, high] =
        std::minmax({PickCode(at, dtype), PickCode(at, dtype)});
    range.low = low;
    range.high = high;
  }
  return range;
}

Shape PickCodeShape(OpCase& at) {
  if (at.Coin()) return {at.Pick(1, 200)};
  return {at.Pick(1, 3), at.Pick(1, 40), at.Pick(1, 9), at.Pick(1, 20)};
}

DequantizeAttributes PickMeaning(OpCase& at, DType dtype) {
  return {.scale = PickScale(at), .zero = PickCode(at, dtype)};
}

void BuildQuantize(OpCase& at) {
  const QuantizeAttributes to{PickScale(at), PickRange(at, PickCodeType(at))};
  // Multiples of 1/2 have codes halfway between two. Large numbers saturate.
  const Shape shape = PickCodeShape(at);
  const ValueId x =
      at.Coin() ? at.CoarseFloats(shape) : at.Floats(shape, -300, 300);
  if (at.Coin()) at.inputs.at(at.graph().value(x).name)[0] = std::nan("");
  at.Emit(Op::kQuantize, {x}, to);
}

void BuildDequantize(OpCase& at) {
  const DType dtype = PickCodeType(at);
  at.Emit(Op::kDequantize, {Codes(at, PickCodeShape(at), dtype)},
          PickMeaning(at, dtype));
}

// Operands of two types, and a sum of another one, run on the reference kernel.
void BuildQuantizedAdd(OpCase& at) {
  const DType a = PickCodeType(at);
  const DType b = at.Pick(0, 3) == 0 ? PickCodeType(at) : a;
  const DType sum = at.Pick(0, 3) == 0 ? PickCodeType(at) : a;
  const Shape shape = PickCodeShape(at);
  QuantizedAddAttributes add{.a = PickMeaning(at, a), .b = PickMeaning(at, b)};
  add.sum = {PickScale(at), PickRange(at, sum)};
  at.Emit(Op::kQuantizedAdd, {Codes(at, shape, a), Codes(at, shape, b)}, add);
}

// Gives the value powers of two.
void SetFactors(OpCase& at, ValueId id) {
  for (double& factor : at.inputs.at(at.graph().value(id).name)) {
    factor = std::exp2(-static_cast<double>(at.Pick(3, 13)));
  }
}

// Makes an input a part of the graph, so that kernels may prepare for it.
void FixNumbers(OpCase& at, ValueId id) {
  Value& value = at.graph().mutable_value(id);
  value.kind = ValueKind::kConstant;
  value.memory_class = MemoryClass::kIo;
  value.constant = at.inputs.at(value.name);
  at.inputs.erase(value.name);
}

void BuildQuantizedConv2d(OpCase& at) {
  const DType dtype = PickCodeType(at);
  QuantizedConv2dAttributes conv;
  conv.x_zero = at.Coin() ? 0 : PickCode(at, dtype);
  conv.codes = PickRange(at, PickCodeType(at));
  conv.conv.groups = at.Pick(0, 2) == 0 ? at.Pick(1, 20) : 1;
  conv.conv.stride = {at.Pick(1, 2), at.Pick(1, 2)};
  conv.conv.dilation = {at.Pick(1, 2), at.Pick(1, 2)};
  const Extent kernel{at.Pick(1, 3), at.Pick(1, 3)};
  // Zeros around the image are the zero point.
  conv.conv.padding = {at.Pick(0, kernel.h - 1), at.Pick(0, kernel.w - 1)};
  const int64_t inputs = conv.conv.groups == 1 ? at.Pick(1, 40) : 1;
  const int64_t filters = conv.conv.groups * at.Pick(1, 40);
  const auto side = [&](int64_t cells, int64_t dilation) {
    return (cells - 1) * dilation + at.Pick(1, 9);
  };
  const Shape x{at.Pick(1, 3), inputs * conv.conv.groups,
                side(kernel.h, conv.conv.dilation.h),
                side(kernel.w, conv.conv.dilation.w)};
  const ValueId codes = Codes(at, x, dtype);
  const ValueId w = at.Integers({filters, inputs, kernel.h, kernel.w},
                                DType::kInt8, -128, 127);
  const ValueId factor = at.Floats({filters});
  SetFactors(at, factor);
  // oneDNN rounds after it has added the zero point, which gives halves to
  // another neighbour if that is odd. A quarter leaves no halves.
  const ValueId shift = at.CoarseFloats({filters});
  for (double& number : at.inputs.at(at.graph().value(shift).name)) {
    number = 8 * number + 0.25;
  }
  at.Emit(Op::kQuantizedConv2d, {codes, w, factor, shift}, conv);
  if (at.Pick(0, 7) == 0) return;
  for (const ValueId id : {w, factor, shift}) FixNumbers(at, id);
}

void BuildMaxPoolOfCodes(OpCase& at) {
  Pool2dAttributes pool;
  pool.kernel = {at.Pick(1, 3), at.Pick(1, 3)};
  pool.stride = {at.Pick(1, 2), at.Pick(1, 2)};
  pool.padding = {at.Pick(0, pool.kernel.h - 1), at.Pick(0, pool.kernel.w - 1)};
  if (at.Pick(0, 3) == 0) pool.dilation = {2, 1};
  const Shape x{at.Pick(1, 3), at.Pick(1, 40), at.Pick(5, 12), at.Pick(3, 12)};
  at.Emit(Op::kMaxPool, {Codes(at, x, PickCodeType(at))}, pool);
}

}  // namespace

std::vector<OpCaseMaker> CodesOpCases() {
  return {
      {"Quantize", BuildQuantize, 0},
      {"Dequantize", BuildDequantize, 0},
      {"QuantizedAdd", BuildQuantizedAdd, 0},
      {"QuantizedConv2d", BuildQuantizedConv2d, 0},
      {"MaxPoolOfCodes", BuildMaxPoolOfCodes, 0},
  };
}

}  // namespace gpupool::engine
