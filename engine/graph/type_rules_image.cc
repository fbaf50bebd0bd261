// Rules of convolutions and pools.
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

struct Window {
  Pair kernel, stride, padding, dilation;
};

// N, `channels` and the output cells of a window sliding over x.
absl::StatusOr<Shape> Slide(Op op, const Shape& x, const Window& window,
                            int64_t channels) {
  ASSIGN_OR_RETURN(const int64_t h,
                   OutputCells(op, {x[2], window.kernel.h, window.stride.h,
                                    window.padding.h, window.dilation.h}));
  ASSIGN_OR_RETURN(const int64_t w,
                   OutputCells(op, {x[3], window.kernel.w, window.stride.w,
                                    window.padding.w, window.dilation.w}));
  const int64_t dims[] = {x[0], channels, h, w};
  return Shape::Create(dims);
}

// The output of a convolution of x with w, without the epilogue.
absl::StatusOr<Shape> ConvShape(Op op, const Conv2dAttributes& conv,
                                const Shape& x, const Shape& w) {
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
  return Slide(op, x, {{w[2], w[3]}, conv.stride, conv.padding, conv.dilation},
               w[0]);
}

absl::StatusOr<Shape> PoolShape(Op op, const Pool2dAttributes& pool,
                                const Shape& x) {
  if (pool.padding.h > pool.kernel.h / 2 ||
      pool.padding.w > pool.kernel.w / 2) {
    return Refuse(op, "padding ", pool.padding.h, "x", pool.padding.w,
                  " must be at most half the kernel ", pool.kernel.h, "x",
                  pool.kernel.w);
  }
  return Slide(op, x, {pool.kernel, pool.stride, pool.padding, {1, 1}}, x[1]);
}

DType ArgmaxType(const Pool2dAttributes& pool) {
  return pool.kernel.h * pool.kernel.w <= 256 ? DType::kUint8 : DType::kInt32;
}

}  // namespace

absl::StatusOr<int64_t> OutputCells(Op op, const WindowAxis& axis) {
  if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 ||
      axis.padding < 0) {
    return Refuse(op, "kernel ", axis.kernel, ", stride ", axis.stride,
                  " and dilation ", axis.dilation,
                  " must be at least 1, padding ", axis.padding, " at least 0");
  }
  if (axis.kernel > kMaxWindow || axis.stride > kMaxWindow ||
      axis.dilation > kMaxWindow || axis.padding > kMaxWindow) {
    return Refuse(op, "kernel, stride, padding and dilation are at most ",
                  kMaxWindow);
  }
  const int64_t reach = axis.dilation * (axis.kernel - 1) + 1;
  const int64_t padded = axis.input + 2 * axis.padding;
  if (reach > padded) {
    return Refuse(op, "the kernel covers ", reach, " cells but the padded ",
                  "input has ", padded);
  }
  return (padded - reach) / axis.stride + 1;
}

Result Conv2d(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& conv = std::get<Conv2dAttributes>(attributes);
  for (const TensorType& operand : inputs.first(2)) {
    RETURN_IF_ERROR(CheckFloating(op, operand));
    RETURN_IF_ERROR(CheckRank(op, operand, 4));
  }
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

Result Conv2dInputGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<Conv2dGradAttributes>(attributes);
  const TensorType dx{inputs[0].dtype, grad.result};
  RETURN_IF_ERROR(CheckFloating(op, dx));
  RETURN_IF_ERROR(CheckRank(op, dx, 4));
  RETURN_IF_ERROR(CheckRank(op, inputs[1], 4));
  ASSIGN_OR_RETURN(const Shape dy,
                   ConvShape(op, grad.conv, grad.result, inputs[1].shape));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dx.dtype, dy}));
  return TensorTypes{dx};
}

Result Conv2dWeightGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<Conv2dGradAttributes>(attributes);
  const TensorType dw{inputs[0].dtype, grad.result};
  RETURN_IF_ERROR(CheckFloating(op, dw));
  RETURN_IF_ERROR(CheckRank(op, dw, 4));
  RETURN_IF_ERROR(CheckRank(op, inputs[1], 4));
  ASSIGN_OR_RETURN(const Shape dy,
                   ConvShape(op, grad.conv, inputs[1].shape, grad.result));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dw.dtype, dy}));
  TensorTypes outputs{dw};
  if (grad.bias_grad) outputs.push_back({dw.dtype, {dw.shape[0]}});
  return outputs;
}

Result MaxPool(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& pool = std::get<Pool2dAttributes>(attributes);
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckRank(op, inputs[0], 4));
  ASSIGN_OR_RETURN(const Shape y, PoolShape(op, pool, inputs[0].shape));
  TensorTypes outputs{{inputs[0].dtype, y}};
  if (pool.with_argmax) outputs.push_back({ArgmaxType(pool), y});
  return outputs;
}

Result AvgPool(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckRank(op, inputs[0], 4));
  ASSIGN_OR_RETURN(
      const Shape y,
      PoolShape(op, std::get<Pool2dAttributes>(attributes), inputs[0].shape));
  return TensorTypes{{inputs[0].dtype, y}};
}

Result PoolGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<Pool2dGradAttributes>(attributes);
  const TensorType dx{inputs[0].dtype, grad.input};
  RETURN_IF_ERROR(CheckRank(op, dx, 4));
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
