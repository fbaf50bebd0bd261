// Rules of convolutions and pools.
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"
#include "engine/graph/window.h"

namespace gpupool::engine::type_rules {
namespace {

// The largest kernel, stride, padding and dilation of an axis. The sums and
// products of window.h then fit 64 bits.
constexpr int64_t kMaxWindow = int64_t{1} << 20;

// Checks one axis of a window, and that the window fits the padded input.
absl::Status CheckWindowAxis(Op op, const WindowAxis& axis) {
  if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 ||
      axis.begin < 0 || axis.end < 0) {
    return Refuse(op, "kernel ", axis.kernel, ", stride ", axis.stride,
                  " and dilation ", axis.dilation,
                  " must be at least 1, padding ", axis.begin, " and ",
                  axis.end, " at least 0");
  }
  for (const int64_t number :
       {axis.kernel, axis.stride, axis.dilation, axis.begin, axis.end}) {
    if (number > kMaxWindow) {
      return Refuse(op, "kernel, stride, padding and dilation are at most ",
                    kMaxWindow);
    }
  }
  const int64_t padded = axis.input + axis.begin + axis.end;
  if (axis.reach() > padded) {
    return Refuse(op, "the kernel covers ", axis.reach(),
                  " cells but the padded input has ", padded);
  }
  return absl::OkStatus();
}

// Checks that x is an image or a volume.
absl::Status CheckSpatial(Op op, const TensorType& x) {
  RETURN_IF_ERROR(CheckFloating(op, x));
  if (x.shape.rank() == 4 || x.shape.rank() == 5) return absl::OkStatus();
  return Refuse(op, "takes images or volumes, of rank 4 or 5, not ", Text(x));
}

// Checks that windows over images have no depth.
absl::Status CheckDepths(Op op, const Shape& x,
                         std::initializer_list<Extent> extents) {
  for (const Extent& extent : extents) {
    if (x.rank() == 4 && extent.d != 0) {
      return Refuse(op, "images have no depth, but a window has depth ",
                    extent.d);
    }
  }
  return absl::OkStatus();
}

// Returns the shape of N, `channels` and the output cells of a window over x.
absl::StatusOr<Shape> Slid(Op op, const Shape& x, const Window& window,
                           int64_t channels) {
  for (const WindowAxis& axis : window)
    RETURN_IF_ERROR(CheckWindowAxis(op, axis));
  std::vector<int64_t> dims{x[0], channels};
  if (x.rank() == 5) dims.push_back(window[0].output());
  dims.push_back(window[1].output());
  dims.push_back(window[2].output());
  return Shape::Create(dims);
}

// Returns the output shape of a convolution of x with w, before the epilogue.
absl::StatusOr<Shape> ConvShape(Op op, const Conv2dAttributes& conv,
                                const Shape& x, const Shape& w) {
  if (x.rank() != w.rank()) {
    return Refuse(op, "input ", x.ToString(), " and weights ", w.ToString(),
                  " must have the same rank");
  }
  const int64_t groups = conv.groups;
  if (groups < 1 || x[1] % groups != 0 || w[0] % groups != 0) {
    return Refuse(op, "groups ", groups, " must divide ", x[1],
                  " input channels and ", w[0], " filters");
  }
  if (x[1] / groups != w[1]) {
    return Refuse(op, "input ", x.ToString(), " has ", x[1] / groups,
                  " channels per group, weights ", w.ToString(), " want ",
                  w[1]);
  }
  RETURN_IF_ERROR(CheckDepths(
      op, x,
      {conv.stride, conv.padding.begin, conv.padding.end, conv.dilation}));
  return Slid(op, x, WindowOf(conv, x, w), w[0]);
}

absl::StatusOr<Shape> PoolShape(Op op, const Pool2dAttributes& pool,
                                const Shape& x) {
  RETURN_IF_ERROR(CheckDepths(op, x,
                              {pool.kernel, pool.stride, pool.padding.begin,
                               pool.padding.end, pool.dilation}));
  const Window window = WindowOf(pool, x);
  ASSIGN_OR_RETURN(Shape y, Slid(op, x, window, x[1]));
  for (const WindowAxis& axis : window) {
    // A window on padding alone would have no maximum and no cells to divide
    // by.
    if (std::max(axis.begin, axis.end) >= axis.reach()) {
      return Refuse(op, "padding ", std::max(axis.begin, axis.end),
                    " must be less than the ", axis.reach(),
                    " cells that the kernel covers");
    }
  }
  return y;
}

// Returns the type of positions in the window.
DType ArgmaxType(const Pool2dAttributes& pool) {
  return pool.kernel.cells() <= 256 ? DType::kUint8 : DType::kInt32;
}

}  // namespace

Result Conv2d(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& conv = std::get<Conv2dAttributes>(attributes);
  for (const TensorType& operand : inputs.first(2)) {
    RETURN_IF_ERROR(CheckSpatial(op, operand));
  }
  RETURN_IF_ERROR(CheckSameNumbers(op, inputs[0], inputs[1]));
  ASSIGN_OR_RETURN(const Shape shape,
                   ConvShape(op, conv, inputs[0].shape, inputs[1].shape));
  const TensorType y{inputs[0].dtype, shape};
  const Epilogue& epilogue = conv.epilogue;
  if (inputs.size() != 2u + epilogue.bias + epilogue.residual) {
    return Refuse(op, "has ", inputs.size(), " inputs, which its epilogue ",
                  "does not explain");
  }
  if (epilogue.bias) {
    RETURN_IF_ERROR(CheckType(op, "bias", inputs[2], {y.dtype, {shape[1]}}));
  }
  if (epilogue.residual) {
    RETURN_IF_ERROR(CheckType(op, "residual", inputs.back(), y));
  }
  return TensorTypes{y};
}

// Checks dy, w -> dx. dy must have the shape of the forward result.
Result Conv2dInputGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<Conv2dGradAttributes>(attributes);
  const TensorType dx{inputs[0].dtype, grad.result};
  RETURN_IF_ERROR(CheckSpatial(op, dx));
  RETURN_IF_ERROR(CheckSpatial(op, inputs[1]));
  ASSIGN_OR_RETURN(const Shape dy,
                   ConvShape(op, grad.conv, grad.result, inputs[1].shape));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dx.dtype, dy}));
  return TensorTypes{dx};
}

// Checks dy, x -> dw, [db]. dy must have the shape of the forward result.
Result Conv2dWeightGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<Conv2dGradAttributes>(attributes);
  const TensorType dw{inputs[0].dtype, grad.result};
  RETURN_IF_ERROR(CheckSpatial(op, dw));
  RETURN_IF_ERROR(CheckSpatial(op, inputs[1]));
  ASSIGN_OR_RETURN(const Shape dy,
                   ConvShape(op, grad.conv, inputs[1].shape, grad.result));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dw.dtype, dy}));
  TensorTypes outputs{dw};
  if (grad.bias_grad) outputs.push_back({dw.dtype, {dw.shape[0]}});
  return outputs;
}

Result MaxPool(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& pool = std::get<Pool2dAttributes>(attributes);
  // Codes of 8 bits have maxima, too, but their positions are not needed.
  TensorType x = inputs[0];
  if (!pool.with_argmax &&
      (x.dtype == DType::kUint8 || x.dtype == DType::kInt8)) {
    x.dtype = DType::kFloat32;
  }
  RETURN_IF_ERROR(CheckSpatial(op, x));
  ASSIGN_OR_RETURN(const Shape y, PoolShape(op, pool, inputs[0].shape));
  TensorTypes outputs{{inputs[0].dtype, y}};
  if (pool.with_argmax) outputs.push_back({ArgmaxType(pool), y});
  return outputs;
}

Result AvgPool(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckSpatial(op, inputs[0]));
  ASSIGN_OR_RETURN(
      const Shape y,
      PoolShape(op, std::get<Pool2dAttributes>(attributes), inputs[0].shape));
  return TensorTypes{{inputs[0].dtype, y}};
}

// Checks dy, [argmax] -> dx. Only the attributes know the shape of dx.
Result PoolGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<Pool2dGradAttributes>(attributes);
  const TensorType dx{inputs[0].dtype, grad.input};
  RETURN_IF_ERROR(CheckSpatial(op, dx));
  ASSIGN_OR_RETURN(const Shape y, PoolShape(op, grad.pool, grad.input));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dx.dtype, y}));
  if (op == Op::kMaxPoolGrad) {
    RETURN_IF_ERROR(
        CheckType(op, "argmax", inputs[1], {ArgmaxType(grad.pool), y}));
  }
  return TensorTypes{dx};
}

Result GlobalAvgPool(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckRank(op, inputs[0], 4));
  const Shape& x = inputs[0].shape;
  return TensorTypes{{inputs[0].dtype, {x[0], x[1]}}};
}

Result GlobalAvgPoolGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const Shape& x = std::get<ShapeAttributes>(attributes).shape;
  const TensorType dx{inputs[0].dtype, x};
  RETURN_IF_ERROR(CheckRank(op, dx, 4));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dx.dtype, {x[0], x[1]}}));
  return TensorTypes{dx};
}

}  // namespace gpupool::engine::type_rules
