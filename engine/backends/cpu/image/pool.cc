// Max and average pools with their gradients by oneDNN. Its workspace for max
// pools is the graph's argmax. Where the types differ (windows near 256 cells),
// plain loops take over.
#include <algorithm>
#include <utility>

#include "engine/backends/cpu/image/pool_plain.h"
#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/graph/window.h"

namespace gpupool::engine {
namespace {

using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;

dnnl::algorithm AlgorithmOf(Op op, const Pool2dAttributes& pool) {
  if (op == Op::kMaxPool || op == Op::kMaxPoolGrad) {
    return dnnl::algorithm::pooling_max;
  }
  return pool.exclude_padding ? dnnl::algorithm::pooling_avg_exclude_padding
                              : dnnl::algorithm::pooling_avg_include_padding;
}

// Returns the cells that the last window needs behind the input.
int64_t EndNeeded(const WindowAxis& axis) {
  const int64_t last = (axis.output() - 1) * axis.stride + axis.reach();
  return std::max(axis.end, last - axis.begin - axis.input);
}

// Returns whether oneDNN's pools compute what the attributes specify.
bool OneDnnKnows(Op op, const Pool2dAttributes& pool, const Shape& x) {
  for (const WindowAxis& axis : WindowOf(pool, x)) {
    if (axis.dilation != 1) return false;
    const bool average = op == Op::kAvgPool || op == Op::kAvgPoolGrad;
    // oneDNN would count cells behind the padding in the divisor, but the op
    // does not.
    if (average && !pool.exclude_padding && EndNeeded(axis) != axis.end) {
      return false;
    }
  }
  return true;
}

PoolShape ShapeOf(Op op, const Pool2dAttributes& pool, const Value& x,
                  const Value& y) {
  PoolShape shape{
      .algorithm = AlgorithmOf(op, pool), .x = DescOf(x), .y = DescOf(y)};
  const Window window = WindowOf(pool, x.shape);
  for (size_t i = x.shape.rank() == 5 ? 0 : 1; i < window.size(); ++i) {
    shape.kernel.push_back(window[i].kernel);
    shape.stride.push_back(window[i].stride);
    shape.begin.push_back(window[i].begin);
    shape.end.push_back(EndNeeded(window[i]));
  }
  return shape;
}

KernelOr MakeForward(const CompileRequest& request, const CpuContext& context) {
  const Op op = request.node.op;
  const auto& pool = request.node.get<Pool2dAttributes>();
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  const ScopedThreads scope(threads);
  if (!OneDnnKnows(op, pool, x.shape)) {
    // The plain loops take float32 alone.
    if (!IsFloating(x.dtype)) return nullptr;
    return MakePlainPool(request, threads);
  }
  const bool training = op != Op::kMaxPool || pool.with_argmax;
  const auto primitive =
      DescribePool(context.engine(), UserScratchpad(),
                   training ? dnnl::prop_kind::forward_training
                            : dnnl::prop_kind::forward_inference,
                   ShapeOf(op, pool, x, y));
  std::vector<Operand> operands = {
      {DNNL_ARG_SRC, DescOf(x), Where::kInput, 0},
      {DNNL_ARG_DST, DescOf(y), Where::kOutput, 0}};
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  if (pool.with_argmax) {
    const auto argmax = DescOf(OutputOf(request, 1));
    if (primitive.workspace_desc() != argmax) {
      return MakePlainPool(request, threads);
    }
    operands.push_back({DNNL_ARG_WORKSPACE, argmax, Where::kOutput, 1});
  }
  kernel->AddStep(When::kRun, PoolForward(primitive),
                  primitive.scratchpad_desc(), std::move(operands));
  return kernel;
}

KernelOr MakeGradient(const CompileRequest& request,
                      const CpuContext& context) {
  const Op op = request.node.op;
  const auto& pool = request.node.get<Pool2dGradAttributes>().pool;
  const Value& x = OutputOf(request, 0);
  const Value& y = InputOf(request, 0);
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  const ScopedThreads scope(threads);
  if (!OneDnnKnows(op, pool, x.shape)) return MakePlainPool(request, threads);
  const PoolShape shape = ShapeOf(op, pool, x, y);
  // Only a max pool with a workspace is a valid hint for the gradient.
  const auto hint = DescribePool(context.engine(), UserScratchpad(),
                                 dnnl::prop_kind::forward_training, shape);
  std::vector<Operand> operands = {
      {DNNL_ARG_DIFF_DST, DescOf(y), Where::kInput, 0},
      {DNNL_ARG_DIFF_SRC, DescOf(x), Where::kOutput, 0}};
  if (op == Op::kMaxPoolGrad) {
    const auto argmax = DescOf(InputOf(request, 1));
    if (hint.workspace_desc() != argmax) return MakePlainPool(request, threads);
    operands.push_back({DNNL_ARG_WORKSPACE, argmax, Where::kInput, 1});
  }
  const auto primitive =
      DescribePoolGradient(context.engine(), UserScratchpad(), hint, shape);
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  kernel->AddStep(When::kRun, PoolBackward(primitive),
                  primitive.scratchpad_desc(), std::move(operands));
  return kernel;
}

}  // namespace

KernelOr MakePool(const CompileRequest& request, const CpuContext& context) {
  const bool forward =
      request.node.op == Op::kMaxPool || request.node.op == Op::kAvgPool;
  return forward ? MakeForward(request, context)
                 : MakeGradient(request, context);
}

}  // namespace gpupool::engine
