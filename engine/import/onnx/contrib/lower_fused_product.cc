// Products and convolutions that ONNX Runtime's optimizer joins with a scale, a
// transpose, a sum or an activation.
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/products.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// The attributes that transpose an operand of FusedMatMul.
struct TransposeNames {
  absl::string_view matrix, batch;
};

// Moves the first axis behind the other batch axes when `batch` is set, then
// transposes the matrices when `matrix` is.
absl::StatusOr<ValueId> Turned(NodeContext& ctx, int input,
                               const TransposeNames& names) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(input));
  ASSIGN_OR_RETURN(const int64_t matrix, ctx.Int(names.matrix, 0));
  ASSIGN_OR_RETURN(const int64_t batch, ctx.Int(names.batch, 0));
  std::vector<int> permutation = AllAxes(ctx.rank(x));
  const size_t rank = permutation.size();
  if (batch != 0 && rank >= 3) {
    permutation.erase(permutation.begin());
    permutation.insert(permutation.end() - 1, 0);
  }
  if (matrix != 0 && rank >= 2) {
    std::swap(permutation[rank - 1], permutation[rank - 2]);
  }
  return ctx.Transpose(x, permutation);
}

absl::Status LowerFusedMatMul(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 1));
  ASSIGN_OR_RETURN(const ValueId a, Turned(ctx, 0, {"transA", "transBatchA"}));
  ASSIGN_OR_RETURN(const ValueId b, Turned(ctx, 1, {"transB", "transBatchB"}));
  ASSIGN_OR_RETURN(const ValueId y, MatrixProduct(ctx, a, b));
  if (alpha == 1) return Finish(ctx, y);
  return Finish(ctx, ctx.Binary(Binary::kMultiply, y, alpha));
}

absl::Status LowerFusedGemm(NodeContext& ctx) {
  FusedActivation activation;
  ASSIGN_OR_RETURN(activation.name, ctx.String("activation", ""));
  for (const absl::string_view name :
       {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!ctx.has_attribute(name)) break;
    ASSIGN_OR_RETURN(activation.numbers.emplace_back(), ctx.Float(name, 0));
  }
  ASSIGN_OR_RETURN(const ValueId y, Gemm(ctx));
  return Finish(ctx, Activate(ctx, y, activation));
}

// Lowers FusedConv, and with `last` the convolutions whose images have the
// channels last. Input 3 is added before the activation.
template <bool last>
absl::Status LowerFusedConv(NodeContext& ctx) {
  FusedActivation activation;
  ASSIGN_OR_RETURN(activation.name, ctx.String("activation", ""));
  ASSIGN_OR_RETURN(activation.numbers, ctx.Floats("activation_params", {}));
  ConvolutionInputs inputs;
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(inputs.x,
                   last ? ChannelsFirst(ctx, x) : absl::StatusOr<ValueId>(x));
  ASSIGN_OR_RETURN(inputs.w, ctx.Input(1));
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(inputs.bias, ctx.Input(2));
  }
  ASSIGN_OR_RETURN(ValueId y, Convolution(ctx, inputs));
  if (last) {
    ASSIGN_OR_RETURN(y, ChannelsLast(ctx, y));
  }
  ASSIGN_OR_RETURN(y, PlusInput(ctx, y, 3, "sum"));
  return Finish(ctx, Activate(ctx, y, activation));
}

}  // namespace

absl::Span<const OperatorEntry> FusedProductOperators() {
  static constexpr absl::string_view kFamily = "products";
  static constexpr absl::string_view kConvolution = "convolution";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "FusedConv", kConvolution, kShapes, LowerFusedConv<false>},
      {kMicrosoft, "FusedGemm", kFamily, kShapes, LowerFusedGemm},
      {kMicrosoft, "FusedMatMul", kFamily, kShapes, LowerFusedMatMul},
      {kMicrosoft, "NhwcConv", kConvolution, kShapes, LowerFusedConv<true>},
      {kMicrosoft, "NhwcFusedConv", kConvolution, kShapes,
       LowerFusedConv<true>},
      {kMicrosoft, "TransposeMatMul", kFamily, kShapes, LowerFusedMatMul},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
