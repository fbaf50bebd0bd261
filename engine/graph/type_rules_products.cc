// Rules of batched products, attention and response normalisation.
#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/broadcast.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

// The most channels in the window of a response normalisation.
constexpr int64_t kMaxLrnSize = int64_t{1} << 30;

// The types of q [B, H, T, D], k [B, H, S, D], v [B, H, S, E] and the mask.
struct AttentionTypes {
  const TensorType& q;
  const TensorType& k;
  const TensorType& v;
  const TensorType* mask;  // nullptr: none
};

// Checks that the mask broadcasts to the scores [B, H, T, S].
absl::Status CheckMask(Op op, const TensorType& mask, const AttentionTypes& a) {
  const int64_t dims[] = {a.q.shape[0], a.q.shape[1], a.q.shape[2],
                          a.k.shape[2]};
  ASSIGN_OR_RETURN(const Shape scores, Shape::CreateMaybeEmpty(dims));
  const absl::StatusOr<Shape> joined = BroadcastShapes(mask.shape, scores);
  if (mask.dtype == a.q.dtype && joined.ok() && *joined == scores) {
    return absl::OkStatus();
  }
  return Refuse(op, "the mask ", Text(mask), " does not broadcast to ",
                Text({a.q.dtype, scores}));
}

absl::Status CheckAttention(Op op, const AttentionAttributes& attributes,
                            const AttentionTypes& a) {
  for (const TensorType* operand : {&a.q, &a.k, &a.v}) {
    RETURN_IF_ERROR(CheckFloating(op, *operand));
    RETURN_IF_ERROR(CheckRank(op, *operand, 4));
  }
  const Shape& q = a.q.shape;
  const Shape& k = a.k.shape;
  const Shape& v = a.v.shape;
  const bool fits = a.q.dtype == a.k.dtype && a.q.dtype == a.v.dtype &&
                    q[0] == k[0] && q[0] == v[0] && q[1] == k[1] &&
                    q[1] == v[1] && q[3] == k[3] && k[2] == v[2];
  if (!fits) {
    return Refuse(op, "queries ", Text(a.q), ", keys ", Text(a.k),
                  " and values ", Text(a.v),
                  " must agree in batch, heads and type, queries and keys in ",
                  "their last axis, keys and values in number");
  }
  if (!std::isfinite(attributes.scale)) {
    return Refuse(op, "the scale is ", attributes.scale);
  }
  return a.mask == nullptr ? absl::OkStatus() : CheckMask(op, *a.mask, a);
}

// Returns the axes before the last two.
absl::StatusOr<Shape> Leading(const Shape& shape) {
  return Shape::CreateMaybeEmpty(
      shape.dims().first(static_cast<size_t>(shape.rank()) - 2));
}

absl::Status CheckLrn(Op op, const LrnAttributes& lrn, const TensorType& x) {
  RETURN_IF_ERROR(CheckFloating(op, x));
  if (x.shape.rank() < 2) {
    return Refuse(op, "needs a channel axis but the input is ",
                  x.shape.ToString());
  }
  if (lrn.size < 1 || lrn.size > kMaxLrnSize) {
    return Refuse(op, "size ", lrn.size, " must lie between 1 and ",
                  kMaxLrnSize);
  }
  if (std::isfinite(lrn.alpha) && std::isfinite(lrn.beta) &&
      std::isfinite(lrn.bias)) {
    return absl::OkStatus();
  }
  return Refuse(op, "alpha ", lrn.alpha, ", beta ", lrn.beta, " and bias ",
                lrn.bias, " must be finite");
}

// Returns the number of bytes that hold this many codes.
int64_t PackedBytes(int64_t codes, int bits) { return (codes * bits + 7) / 8; }

absl::Status CheckZeros(Op op, int bits, const TensorType& zeros,
                        const Shape& scales) {
  const bool packed = zeros.dtype == DType::kUint8;
  // Zero points may be packed like the codes, or be one float for each block.
  const int64_t cells = packed ? PackedBytes(scales[1], bits) : scales[1];
  if ((packed || zeros.dtype == DType::kFloat32) && zeros.shape.rank() == 2 &&
      zeros.shape[0] == scales[0] && zeros.shape[1] == cells) {
    return absl::OkStatus();
  }
  return Refuse(op, "the zero points ", Text(zeros), " must be float32 ",
                scales.ToString(), " or packed in uint8 [", scales[0], ", ",
                PackedBytes(scales[1], bits), "]");
}

}  // namespace

Result BlockedMatMul(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& matmul = std::get<BlockedMatMulAttributes>(attributes);
  const TensorType& a = inputs[0];
  const TensorType& codes = inputs[1];
  const TensorType& scales = inputs[2];
  if (matmul.bits != 4 && matmul.bits != 8) {
    return Refuse(op, "codes of ", matmul.bits, " bits must have 4 or 8");
  }
  if (a.dtype != DType::kFloat32 || scales.dtype != DType::kFloat32 ||
      codes.dtype != DType::kUint8) {
    return Refuse(op, "needs numbers and scales of float32 and codes of uint8,",
                  " not ", Text(a), ", ", Text(scales), " and ", Text(codes));
  }
  RETURN_IF_ERROR(CheckRank(op, a, 2));
  RETURN_IF_ERROR(CheckRank(op, codes, 3));
  RETURN_IF_ERROR(CheckRank(op, scales, 2));
  const int64_t columns = codes.shape[0];
  const int64_t blocks = codes.shape[1];
  if (scales.shape[0] != columns || scales.shape[1] != blocks) {
    return Refuse(op, "codes ", codes.shape.ToString(), " need scales [",
                  columns, ", ", blocks, "], not ", scales.shape.ToString());
  }
  // Each byte of the codes holds 8 / bits of them.
  const int64_t inner = blocks * codes.shape[2] * (8 / matmul.bits);
  if (a.shape[1] != inner) {
    return Refuse(op, "the matrix ", a.shape.ToString(), " must have the ",
                  inner, " columns of the codes ", codes.shape.ToString());
  }
  if (matmul.with_zeros != (inputs.size() == 4)) {
    return Refuse(op, "has ", inputs.size(), " inputs and ",
                  matmul.with_zeros ? "needs" : "no", " zero points");
  }
  if (matmul.with_zeros) {
    RETURN_IF_ERROR(CheckZeros(op, matmul.bits, inputs[3], scales.shape));
  }
  const int64_t dims[] = {a.shape[0], columns};
  ASSIGN_OR_RETURN(const Shape y, Shape::Create(dims));
  return TensorTypes{{DType::kFloat32, y}};
}

Result BatchMatMul(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& matmul = std::get<BatchMatMulAttributes>(attributes);
  const TensorType& left = inputs[0];
  const TensorType& right = inputs[1];
  const Shape& a = left.shape;
  const Shape& b = right.shape;
  if (left.dtype == DType::kBool || left.dtype != right.dtype || a.rank() < 2 ||
      b.rank() < 2) {
    return Refuse(op, "needs two matrices of numbers of one type, not ",
                  Text(left), " and ", Text(right));
  }
  if (!std::isfinite(matmul.scale) ||
      // A scaled product of integers would have to be rounded.
      (!IsFloating(left.dtype) && matmul.scale != 1)) {
    return Refuse(op, "the scale ", matmul.scale, " must be finite, and 1 for ",
                  "integers");
  }
  const int rows_a = a.rank() - 2;
  const int rows_b = b.rank() - 2;
  if (a[rows_a + (matmul.transpose_a ? 0 : 1)] !=
      b[rows_b + (matmul.transpose_b ? 1 : 0)]) {
    return Refuse(op, "inner dimensions of ", a.ToString(),
                  matmul.transpose_a ? " transposed" : "", " and ",
                  b.ToString(), matmul.transpose_b ? " transposed" : "",
                  " differ");
  }
  ASSIGN_OR_RETURN(const Shape leading_a, Leading(a));
  ASSIGN_OR_RETURN(const Shape leading_b, Leading(b));
  const absl::StatusOr<Shape> leading = BroadcastShapes(leading_a, leading_b);
  if (!leading.ok()) {
    return Refuse(op, "leading axes of ", a.ToString(), " and ", b.ToString(),
                  " do not broadcast");
  }
  std::vector<int64_t> dims(leading->dims().begin(), leading->dims().end());
  dims.push_back(a[rows_a + (matmul.transpose_a ? 1 : 0)]);
  dims.push_back(b[rows_b + (matmul.transpose_b ? 0 : 1)]);
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{left.dtype, y}};
}

Result Attention(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& attention = std::get<AttentionAttributes>(attributes);
  const AttentionTypes types{inputs[0], inputs[1], inputs[2],
                             inputs.size() > 3 ? &inputs[3] : nullptr};
  RETURN_IF_ERROR(CheckAttention(op, attention, types));
  const Shape& q = inputs[0].shape;
  const int64_t y_dims[] = {q[0], q[1], q[2], inputs[2].shape[3]};
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(y_dims));
  TensorTypes outputs{{inputs[0].dtype, y}};
  if (attention.with_lse) {
    ASSIGN_OR_RETURN(const Shape lse,
                     Shape::CreateMaybeEmpty(q.dims().first(3)));
    // Gradients subtract the lse from scores, for which 16 bits are too few.
    outputs.push_back({StatisticsType(inputs[0].dtype), lse});
  }
  return outputs;
}

// Checks dy, q, k, v, y, lse, [mask] by the types of the forward node.
Result AttentionGrad(Op op, const Attributes& attributes, Inputs inputs) {
  AttentionAttributes attention = std::get<AttentionAttributes>(attributes);
  attention.with_lse = true;
  TensorTypes forward(inputs.begin() + 1, inputs.begin() + 4);
  if (inputs.size() > 6) forward.push_back(inputs[6]);
  ASSIGN_OR_RETURN(const TensorTypes outputs,
                   Attention(op, attention, forward));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], outputs[0]));
  RETURN_IF_ERROR(CheckType(op, "y", inputs[4], outputs[0]));
  RETURN_IF_ERROR(CheckType(op, "lse", inputs[5], outputs[1]));
  // The mask has no gradient.
  forward.resize(3);
  return forward;
}

Result Lrn(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckLrn(op, std::get<LrnAttributes>(attributes), inputs[0]));
  return TensorTypes{inputs[0]};
}

Result LrnGrad(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckLrn(op, std::get<LrnAttributes>(attributes), inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], inputs[1]));
  return TensorTypes{inputs[1]};
}

}  // namespace gpupool::engine::type_rules
