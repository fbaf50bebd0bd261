// Batch norm: training, inference and gradient by oneDNN, running statistics
// and folding by plain loops over channels.
#include <cmath>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/function_kernel.h"

namespace gpupool::engine {
namespace {

using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;
using Flags = dnnl::normalization_flags;

const Flags kScaleAndShift = Flags::use_scale | Flags::use_shift;

// Describes [N, C, rest...] as [N, C, 1, rest], since oneDNN takes only ranks 2
// and 4 of the layouts that occur here.
dnnl::memory::desc DataDesc(const Value& x) {
  if (x.shape.rank() == 2 || x.shape.rank() == 4) return DescOf(x);
  const int64_t outer = x.shape[0] * x.shape[1];
  return DescOf({x.shape[0], x.shape[1], 1, x.shape.elements() / outer},
                x.dtype, Layout::kRowMajor);
}

// Describes parameters and statistics, which are float32 also for bfloat16
// data.
dnnl::memory::desc ChannelDesc(const Value& x) {
  return DescOf(Shape{x.shape[1]}, DType::kFloat32, Layout::kRowMajor);
}

KernelOr MakeBatchNorm(const CompileRequest& request, const CpuContext& context,
                       bool training) {
  const Value& value = InputOf(request, 0);
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  const ScopedThreads scope(threads);
  const auto x = DataDesc(value);
  const auto channel = ChannelDesc(value);
  const float epsilon =
      static_cast<float>(request.node.get<NormAttributes>().epsilon);
  const auto kind = training ? dnnl::prop_kind::forward_training
                             : dnnl::prop_kind::forward_inference;
  const auto flags =
      training ? kScaleAndShift : kScaleAndShift | Flags::use_global_stats;
  const auto primitive = DescribeBatchNorm(context.engine(), UserScratchpad(),
                                           kind, {x, epsilon, flags});
  const Where statistics = training ? Where::kOutput : Where::kInput;
  const uint64_t first = training ? 1 : 3;
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  kernel->AddStep(When::kRun, Forward(primitive), primitive.scratchpad_desc(),
                  {{DNNL_ARG_SRC, x, Where::kInput, 0},
                   {DNNL_ARG_SCALE, channel, Where::kInput, 1},
                   {DNNL_ARG_SHIFT, channel, Where::kInput, 2},
                   {DNNL_ARG_MEAN, channel, statistics, first},
                   {DNNL_ARG_VARIANCE, channel, statistics, first + 1},
                   {DNNL_ARG_DST, x, Where::kOutput, 0}});
  return kernel;
}

KernelOr MakeBatchNormGradient(const CompileRequest& request,
                               const CpuContext& context) {
  const Value& value = InputOf(request, 1);
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  const ScopedThreads scope(threads);
  const auto x = DataDesc(value);
  const auto channel = ChannelDesc(value);
  const float epsilon =
      static_cast<float>(request.node.get<NormAttributes>().epsilon);
  // oneDNN makes a backward primitive only with the forward one as a hint.
  const BatchNormShape norm{x, epsilon, kScaleAndShift};
  const auto hint = DescribeBatchNorm(context.engine(), UserScratchpad(),
                                      dnnl::prop_kind::forward_training, norm);
  const auto primitive =
      DescribeBatchNormGradient(context.engine(), UserScratchpad(), hint, norm);
  std::vector<Operand> operands{
      {DNNL_ARG_DIFF_DST, x, Where::kInput, 0},
      {DNNL_ARG_SRC, x, Where::kInput, 1},
      {DNNL_ARG_SCALE, channel, Where::kInput, 2},
      {DNNL_ARG_MEAN, channel, Where::kInput, 3},
      {DNNL_ARG_VARIANCE, channel, Where::kInput, 4},
      {DNNL_ARG_DIFF_SRC, x, Where::kOutput, 0},
      {DNNL_ARG_DIFF_SCALE, channel, Where::kOutput, 1},
      {DNNL_ARG_DIFF_SHIFT, channel, Where::kOutput, 2}};
  if (kGradientTakesShift) {
    operands.push_back({DNNL_ARG_SHIFT, channel, Where::kInput, 2});
  }
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  kernel->AddStep(When::kRun, Backward(primitive), primitive.scratchpad_desc(),
                  std::move(operands));
  return kernel;
}

KernelOr MakeUpdate(const CompileRequest& request) {
  const auto attributes = request.node.get<BatchNormUpdateAttributes>();
  const int64_t channels = InputOf(request, 0).shape.elements();
  const auto momentum = static_cast<float>(attributes.momentum);
  // The batch's variance is biased, the running one is not.
  const auto unbias = static_cast<float>(static_cast<double>(attributes.count) /
                                         (attributes.count - 1));
  return MakeKernel([=](const KernelArguments& at) {
    for (int64_t c = 0; c < channels; ++c) {
      const float mean = at.in(0)[c];
      const float variance = at.in(1)[c];
      at.out(0)[c] = mean + momentum * (at.in(2)[c] - mean);
      at.out(1)[c] = variance + momentum * (at.in(3)[c] * unbias - variance);
    }
  });
}

// Computes w' = w * gamma / sqrt(variance + epsilon) and the bias that goes
// with it.
KernelOr MakeFold(const CompileRequest& request) {
  const Value& w = InputOf(request, 0);
  const int64_t filters = w.shape[0];
  const int64_t inner = w.shape.elements() / filters;
  const double epsilon = request.node.get<NormAttributes>().epsilon;
  return MakeKernel([=](const KernelArguments& at) {
    for (int64_t o = 0; o < filters; ++o) {
      const double scale = at.in(1)[o] / std::sqrt(at.in(4)[o] + epsilon);
      const double bias = at.inputs() > 5 ? at.in(5)[o] : 0.0;
      for (int64_t i = o * inner; i < (o + 1) * inner; ++i) {
        at.out(0)[i] = static_cast<float>(at.in(0)[i] * scale);
      }
      at.out(1)[o] =
          static_cast<float>(at.in(2)[o] + (bias - at.in(3)[o]) * scale);
    }
  });
}

}  // namespace

KernelOr MakeBatchNorm(const CompileRequest& request,
                       const CpuContext& context) {
  // There is no kernel for 16-bit parameters.
  if (InputOf(request, 2).dtype != DType::kFloat32) return nullptr;
  switch (request.node.op) {
    case Op::kBatchNormTraining:
      return MakeBatchNorm(request, context, true);
    case Op::kBatchNormInference:
      return MakeBatchNorm(request, context, false);
    case Op::kBatchNormTrainingGrad:
      return MakeBatchNormGradient(request, context);
    case Op::kBatchNormUpdate:
      return MakeUpdate(request);
    default:
      return MakeFold(request);
  }
}

}  // namespace gpupool::engine
