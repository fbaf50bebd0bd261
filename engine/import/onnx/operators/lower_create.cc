// Values that are made from numbers alone: constants, ranges, masks, windows.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

HostTensor List(DType dtype, std::vector<double> numbers) {
  const int64_t dims[] = {static_cast<int64_t>(numbers.size())};
  return {dtype, *Shape::CreateMaybeEmpty(dims), std::move(numbers)};
}

absl::Status LowerConstant(NodeContext& ctx) {
  HostTensor tensor;
  int element_type = 0;
  if (ctx.has_attribute("value")) {
    ASSIGN_OR_RETURN(tensor, ctx.TensorAttribute("value"));
    element_type = ctx.attribute("value")->t().data_type();
  } else if (ctx.has_attribute("value_float")) {
    ASSIGN_OR_RETURN(const double number, ctx.Float("value_float", 0));
    tensor = {DType::kFloat32, {}, {number}};
  } else if (ctx.has_attribute("value_int")) {
    ASSIGN_OR_RETURN(const int64_t number, ctx.Int("value_int", 0));
    tensor = {DType::kInt64, {}, {static_cast<double>(number)}};
  } else if (ctx.has_attribute("value_floats")) {
    ASSIGN_OR_RETURN(std::vector<double> numbers,
                     ctx.Floats("value_floats", {}));
    tensor = List(DType::kFloat32, std::move(numbers));
  } else if (ctx.has_attribute("value_ints")) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                     ctx.Ints("value_ints", {}));
    tensor = List(DType::kInt64, {numbers.begin(), numbers.end()});
  } else {
    return ctx.Unsupported("only dense tensors and numbers can be constants");
  }
  ctx.Set(0, ctx.Constant(std::move(tensor)), element_type);
  return absl::OkStatus();
}

absl::Status LowerConstantOfShape(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                   KnownInts(ctx, 0, "the shape"));
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  HostTensor value{DType::kFloat32, {}, {0}};
  if (ctx.has_attribute("value")) {
    ASSIGN_OR_RETURN(value, ctx.TensorAttribute("value"));
    if (value.numbers.size() != 1) {
      return ctx.Refuse("value must be one number, not ",
                        value.shape.ToString());
    }
  }
  return Finish(ctx, Filled(ctx, value.dtype, shape, value.numbers[0]));
}

absl::Status LowerRange(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const HostTensor first, ctx.Known(0, "the start"));
  ASSIGN_OR_RETURN(const double start, KnownFloat(ctx, 0, "the start"));
  ASSIGN_OR_RETURN(const double limit, KnownFloat(ctx, 1, "the limit"));
  ASSIGN_OR_RETURN(const double delta, KnownFloat(ctx, 2, "the step"));
  const double cells = std::ceil((limit - start) / delta);
  // Also refuses a step of 0 or NaN, which gives infinity or NaN.
  if (!(cells <= static_cast<double>(kMaxListedNumbers))) {
    return ctx.Refuse("a range from ", start, " to ", limit, " in steps of ",
                      delta, " is over the limit of ", kMaxListedNumbers,
                      " elements");
  }
  RETURN_IF_ERROR(
      ReserveNumbers(ctx, static_cast<int64_t>(std::max(cells, 0.0))));
  std::vector<double> numbers;
  numbers.reserve(static_cast<size_t>(std::max(cells, 0.0)));
  for (double i = 0; i < cells; ++i) numbers.push_back(start + i * delta);
  ctx.Set(0, ctx.Constant(List(first.dtype, std::move(numbers))));
  return absl::OkStatus();
}

// Returns a constant [rows, columns], the last two axes of `matrices`, of 1
// where keep(column - row), else 0.
template <typename Keep>
absl::StatusOr<ValueId> Diagonals(NodeContext& ctx, DType dtype,
                                  const Shape& matrices, const Keep& keep) {
  const int64_t rows = matrices[matrices.rank() - 2];
  const int64_t columns = matrices[matrices.rank() - 1];
  const int64_t dims[] = {rows, columns};
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  HostTensor mask{dtype, shape, {}};
  mask.numbers.reserve(static_cast<size_t>(shape.elements()));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      mask.numbers.push_back(keep(column - row) ? 1 : 0);
    }
  }
  return ctx.Constant(std::move(mask));
}

// Returns k, or a diagonal just outside of any matrix, so that sums cannot
// overflow.
int64_t NearDiagonal(int64_t k) {
  return std::min(std::max(k, -kMaxElements), kMaxElements);
}

absl::Status LowerEyeLike(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2, 2));
  ASSIGN_OR_RETURN(const DType dtype, ctx.TypeAttribute("dtype", ctx.dtype(x)));
  ASSIGN_OR_RETURN(const int64_t k, ctx.Int("k", 0));
  const Shape shape = ctx.shape(x);
  return Finish(
      ctx, Diagonals(ctx, dtype, shape, [k](int64_t d) { return d == k; }));
}

absl::Status LowerTrilu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2));
  ASSIGN_OR_RETURN(const int64_t upper, ctx.Int("upper", 1));
  int64_t k = 0;
  if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(k, KnownInt(ctx, 1, "the diagonal"));
    k = NearDiagonal(k);
  }
  const Shape shape = ctx.shape(x);
  if (shape.elements() == 0) return Finish(ctx, x);
  ASSIGN_OR_RETURN(const ValueId keep,
                   Diagonals(ctx, DType::kBool, shape, [k, upper](int64_t d) {
                     return upper != 0 ? d >= k : d <= k;
                   }));
  const ValueId zero = ctx.Scalar(ctx.dtype(x), 0);
  return Finish(ctx, ctx.Emit(Op::kWhere, {keep, x, zero}));
}

// Element operations that two cosines are worth.
constexpr int64_t kCosinesWork = 6;

// Makes the cosine window a - b cos(2 pi n / N) + c cos(4 pi n / N) of the
// operators' specification.
absl::Status LowerWindow(NodeContext& ctx, double a, double b, double c) {
  ASSIGN_OR_RETURN(const int64_t size, KnownInt(ctx, 0, "the size"));
  ASSIGN_OR_RETURN(const int64_t periodic, ctx.Int("periodic", 1));
  ASSIGN_OR_RETURN(const DType dtype,
                   ctx.TypeAttribute("output_datatype", DType::kFloat32));
  if (size < 1) return ctx.Refuse("size ", size, " must be at least 1");
  RETURN_IF_ERROR(ReserveNumbers(ctx, size));
  absl::Status spent = ctx.importer().values().Spend(size * kCosinesWork);
  if (!spent.ok()) return ctx.Refuse(spent.message());
  const double period =
      static_cast<double>(periodic != 0 || size == 1 ? size : size - 1);
  std::vector<double> window;
  for (int64_t n = 0; n < size; ++n) {
    const double angle = 2 * M_PI * static_cast<double>(n) / period;
    window.push_back(a - b * std::cos(angle) + c * std::cos(2 * angle));
  }
  ctx.Set(0, ctx.Constant(List(dtype, std::move(window))));
  return absl::OkStatus();
}

absl::Status LowerHann(NodeContext& ctx) {
  return LowerWindow(ctx, 0.5, 0.5, 0);
}

absl::Status LowerHamming(NodeContext& ctx) {
  return LowerWindow(ctx, 25.0 / 46, 21.0 / 46, 0);
}

absl::Status LowerBlackman(NodeContext& ctx) {
  return LowerWindow(ctx, 0.42, 0.5, 0.08);
}

}  // namespace

absl::Span<const OperatorEntry> CreateOperators() {
  static constexpr absl::string_view kFamily = "constants";
  static const OperatorEntry rows[] = {
      {"", "BlackmanWindow", kFamily, kNumbers, LowerBlackman},
      {"", "Constant", kFamily, kShapes, LowerConstant},
      {"", "ConstantOfShape", kFamily, kNumbers, LowerConstantOfShape},
      {"", "EyeLike", kFamily, kShapes, LowerEyeLike},
      {"", "HammingWindow", kFamily, kNumbers, LowerHamming},
      {"", "HannWindow", kFamily, kNumbers, LowerHann},
      {"", "Range", kFamily, kNumbers, LowerRange},
      {"", "Trilu", kFamily, kNumbers, LowerTrilu},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
