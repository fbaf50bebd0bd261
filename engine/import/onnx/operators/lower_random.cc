// Lowers the operators that draw random numbers. Every run draws anew, from the
// program's seed and step. Each node has its own stream, so the file's seeds
// are ignored.
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// A distribution with its parameters: low and high, or mean and scale.
struct Drawing {
  RandomDistribution distribution = RandomDistribution::kUniform;
  double first = 0;
  double second = 1;
};

// Adds a draw. The shape comes by value, since adding constants may move the
// value that ctx.shape() refers to.
absl::StatusOr<ValueId> Draw(NodeContext& ctx, Shape shape,
                             const Drawing& drawing) {
  ASSIGN_OR_RETURN(const NodeContext::RandomSource source, ctx.Random());
  RandomAttributes random;
  random.distribution = drawing.distribution;
  random.first = drawing.first;
  random.second = drawing.second;
  random.stream = source.stream;
  random.shape = shape;
  return ctx.Emit(Op::kRandom, {source.seed, source.step}, std::move(random));
}

template <RandomDistribution distribution>
absl::StatusOr<Drawing> ReadDrawing(const NodeContext& ctx) {
  const bool uniform = distribution == RandomDistribution::kUniform;
  Drawing drawing;
  drawing.distribution = distribution;
  ASSIGN_OR_RETURN(drawing.first, ctx.Float(uniform ? "low" : "mean", 0));
  ASSIGN_OR_RETURN(drawing.second, ctx.Float(uniform ? "high" : "scale", 1));
  return drawing;
}

template <RandomDistribution distribution>
absl::Status LowerRandom(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Drawing drawing, ReadDrawing<distribution>(ctx));
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ctx.Ints("shape", {}));
  ASSIGN_OR_RETURN(const DType dtype,
                   ctx.TypeAttribute("dtype", DType::kFloat32));
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  ASSIGN_OR_RETURN(const ValueId y, Draw(ctx, shape, drawing));
  return Finish(ctx, ctx.Cast(y, dtype));
}

template <RandomDistribution distribution>
absl::Status LowerRandomLike(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Drawing drawing, ReadDrawing<distribution>(ctx));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const DType dtype, ctx.TypeAttribute("dtype", ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId y, Draw(ctx, ctx.shape(x), drawing));
  return Finish(ctx, ctx.Cast(y, dtype));
}

// Draws 1 with probability x: a uniform number is less than x.
absl::Status LowerBernoulli(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const DType dtype, ctx.TypeAttribute("dtype", ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId drawn, Draw(ctx, ctx.shape(x), {}));
  ASSIGN_OR_RETURN(const ValueId number, ctx.Cast(drawn, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId hit, ctx.Binary(Binary::kLess, number, x));
  return Finish(ctx, ctx.Cast(hit, dtype));
}

// Takes the class with the largest log p + Gumbel noise, which draws classes
// with probabilities p (Maddison et al. 2014, arXiv 1411.0030, section 2).
absl::Status LowerMultinomial(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2, 2));
  ASSIGN_OR_RETURN(const int64_t samples, ctx.Int("sample_size", 1));
  ASSIGN_OR_RETURN(const DType dtype,
                   ctx.TypeAttribute("dtype", DType::kInt32));
  const int64_t batch = ctx.shape(x)[0];
  const int64_t classes = ctx.shape(x)[1];
  if (samples < 1) return ctx.Refuse("sample_size must be at least 1");
  ASSIGN_OR_RETURN(const Shape shape,
                   MakeShape(ctx, {batch, samples, classes}));
  // At 0 and 1 the noise would be infinite.
  ASSIGN_OR_RETURN(const ValueId uniform, Draw(ctx, shape, {}));
  ASSIGN_OR_RETURN(const ValueId inside,
                   ctx.Unary(Unary::kClip, uniform, 1e-30, 1 - 6e-8));
  ASSIGN_OR_RETURN(const ValueId log, ctx.Unary(Unary::kLog, inside));
  ASSIGN_OR_RETURN(const ValueId positive, ctx.Unary(Unary::kNegate, log));
  ASSIGN_OR_RETURN(const ValueId noise, ctx.Unary(Unary::kLog, positive));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(noise, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Reshape(x, {batch, 1, classes}));
  // Gumbel noise is -log(-log(u)), and `typed` has the opposite sign.
  ASSIGN_OR_RETURN(const ValueId scores,
                   ctx.Binary(Binary::kSubtract, rows, typed));
  ArgReduceAttributes best;
  best.axis = 2;
  ASSIGN_OR_RETURN(const ValueId chosen,
                   ctx.Emit(Op::kArgReduce, {scores}, best));
  return Finish(ctx, ctx.Cast(chosen, dtype));
}

}  // namespace

absl::Span<const OperatorEntry> RandomOperators() {
  static constexpr absl::string_view kFamily = "random";
  constexpr auto kNormal = RandomDistribution::kNormal;
  constexpr auto kUniform = RandomDistribution::kUniform;
  static const OperatorEntry rows[] = {
      {"", "Bernoulli", kFamily, kShapes, LowerBernoulli},
      {"", "Multinomial", kFamily, kShapes, LowerMultinomial},
      {"", "RandomNormal", kFamily, kShapes, LowerRandom<kNormal>},
      {"", "RandomNormalLike", kFamily, kShapes, LowerRandomLike<kNormal>},
      {"", "RandomUniform", kFamily, kShapes, LowerRandom<kUniform>},
      {"", "RandomUniformLike", kFamily, kShapes, LowerRandomLike<kUniform>},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
