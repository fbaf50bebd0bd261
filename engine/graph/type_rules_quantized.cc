// Rules of ops on codes of 8 bits.
#include <cmath>
#include <limits>

#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

struct Limits {
  int low, high;
};
Limits LimitsOf(DType dtype) {
  if (dtype == DType::kUint8) return {0, 255};
  return {-128, 127};
}

bool AreCodes(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kInt8;
}

absl::Status CheckCodes(Op op, const TensorType& x) {
  if (AreCodes(x.dtype)) return absl::OkStatus();
  return Refuse(op, "codes are uint8 or int8, not ", Text(x));
}

absl::Status CheckZero(Op op, int zero, DType dtype) {
  const Limits limits = LimitsOf(dtype);
  if (zero >= limits.low && zero <= limits.high) return absl::OkStatus();
  return Refuse(op, "the zero point ", zero, " must be from ", limits.low,
                " to ", limits.high, " for ", DTypeName(dtype));
}

absl::Status CheckScale(Op op, double scale) {
  // The kernels compute in float32.
  if (scale >= std::numeric_limits<float>::min() &&
      scale <= std::numeric_limits<float>::max()) {
    return absl::OkStatus();
  }
  return Refuse(op, "the scale ", scale, " must be positive and finite");
}

absl::Status CheckRange(Op op, const CodeRange& codes) {
  if (!AreCodes(codes.dtype)) {
    return Refuse(op, "codes are uint8 or int8, not ", DTypeName(codes.dtype));
  }
  RETURN_IF_ERROR(CheckZero(op, codes.zero, codes.dtype));
  const Limits limits = LimitsOf(codes.dtype);
  if (limits.low <= codes.low && codes.low <= codes.high &&
      codes.high <= limits.high) {
    return absl::OkStatus();
  }
  return Refuse(op, "codes from ", codes.low, " to ", codes.high,
                " must be a part of ", limits.low, " to ", limits.high);
}

absl::Status CheckFrom(Op op, const DequantizeAttributes& from,
                       const TensorType& x) {
  RETURN_IF_ERROR(CheckCodes(op, x));
  RETURN_IF_ERROR(CheckScale(op, from.scale));
  return CheckZero(op, from.zero, x.dtype);
}

absl::Status CheckTo(Op op, const QuantizeAttributes& to) {
  RETURN_IF_ERROR(CheckScale(op, to.scale));
  return CheckRange(op, to.codes);
}

}  // namespace

Result Quantize(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& to = std::get<QuantizeAttributes>(attributes);
  RETURN_IF_ERROR(CheckTo(op, to));
  if (inputs[0].dtype != DType::kFloat32) {
    return Refuse(op, "needs numbers of float32, not ", Text(inputs[0]));
  }
  return TensorTypes{{to.codes.dtype, inputs[0].shape}};
}

Result Dequantize(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(
      CheckFrom(op, std::get<DequantizeAttributes>(attributes), inputs[0]));
  return TensorTypes{{DType::kFloat32, inputs[0].shape}};
}

Result QuantizedAdd(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& add = std::get<QuantizedAddAttributes>(attributes);
  RETURN_IF_ERROR(CheckFrom(op, add.a, inputs[0]));
  RETURN_IF_ERROR(CheckFrom(op, add.b, inputs[1]));
  RETURN_IF_ERROR(CheckTo(op, add.sum));
  if (inputs[0].shape != inputs[1].shape) {
    return Refuse(op, Text(inputs[0]), " and ", Text(inputs[1]),
                  " differ in shape");
  }
  return TensorTypes{{add.sum.codes.dtype, inputs[0].shape}};
}

Result QuantizedConv2d(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& conv = std::get<QuantizedConv2dAttributes>(attributes);
  const TensorType& x = inputs[0];
  const TensorType& w = inputs[1];
  RETURN_IF_ERROR(CheckCodes(op, x));
  RETURN_IF_ERROR(CheckZero(op, conv.x_zero, x.dtype));
  RETURN_IF_ERROR(CheckRange(op, conv.codes));
  RETURN_IF_ERROR(CheckRank(op, x, 4));
  RETURN_IF_ERROR(CheckRank(op, w, 4));
  if (w.dtype != DType::kInt8) {
    return Refuse(op, "weights are int8, not ", Text(w));
  }
  if (conv.conv.epilogue != Epilogue{}) {
    return Refuse(op, "takes no epilogue");
  }
  // The shape is the same in real numbers.
  const TensorType real[] = {{DType::kFloat32, x.shape},
                             {DType::kFloat32, w.shape}};
  ASSIGN_OR_RETURN(TensorTypes y, Conv2d(op, conv.conv, real));
  const int64_t products = w.shape.elements() / w.shape[0];
  if (products > kMaxCodeProducts) {
    return Refuse(op, "sums of ", products, " products are over the limit of ",
                  kMaxCodeProducts, " for sums of 32 bits");
  }
  const TensorType row{DType::kFloat32, {w.shape[0]}};
  RETURN_IF_ERROR(CheckType(op, "factor", inputs[2], row));
  RETURN_IF_ERROR(CheckType(op, "shift", inputs[3], row));
  y[0].dtype = conv.codes.dtype;
  return y;
}

}  // namespace gpupool::engine::type_rules
