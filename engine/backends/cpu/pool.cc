// Max and average pools with their gradients by oneDNN, whose workspace for
// max pools is the graph's argmax; where its type differs (windows near 256
// cells) a plain loop stands in. Global average pools are loops.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/backends/cpu/dnnl_kernel.h"
#include "engine/backends/cpu/function_kernel.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cpu/parallel.h"

namespace gpupool::engine {
namespace {

using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;
using Dims = dnnl::memory::dims;

dnnl::algorithm AlgorithmOf(Op op, const Pool2dAttributes& pool) {
  if (op == Op::kMaxPool || op == Op::kMaxPoolGrad) {
    return dnnl::algorithm::pooling_max;
  }
  return pool.exclude_padding ? dnnl::algorithm::pooling_avg_exclude_padding
                              : dnnl::algorithm::pooling_avg_include_padding;
}

struct Geometry {
  Dims kernel, stride, padding;

  explicit Geometry(const Pool2dAttributes& pool)
      : kernel{pool.kernel.h, pool.kernel.w},
        stride{pool.stride.h, pool.stride.w},
        padding{pool.padding.h, pool.padding.w} {}
};

Forward::primitive_desc ForwardPrimitive(Op op, const Pool2dAttributes& pool,
                                         const dnnl::memory::desc& x,
                                         const dnnl::memory::desc& y,
                                         const CpuContext& context) {
  const bool training = op != Op::kMaxPool || pool.with_argmax;
  const Geometry g(pool);
  const auto kind = training ? dnnl::prop_kind::forward_training
                             : dnnl::prop_kind::forward_inference;
  return {Forward::desc(kind, AlgorithmOf(op, pool), x, y, g.stride, g.kernel,
                        g.padding, g.padding),
          UserScratchpad(), context.engine()};
}

// One image plane of one channel: how to walk it in either layout.
struct Plane {
  int64_t height, width;
  int64_t row_stride, column_stride;
};

Plane PlaneOf(const Shape& shape, Layout layout) {
  const int64_t c = shape[1], w = shape[3];
  if (layout == Layout::kChannelsLast) return {shape[2], w, w * c, c};
  return {shape[2], w, w, 1};
}

int64_t PlaneOffset(const Shape& shape, Layout layout, int64_t n, int64_t c) {
  const int64_t area = shape[2] * shape[3];
  return n * shape[1] * area + (layout == Layout::kChannelsLast ? c : c * area);
}

// Calls body(n, c) for every image and channel.
template <typename Body>
void ForEachPlane(int threads, const Shape& shape, const Body& body) {
  ParallelFor(threads, shape[0] * shape[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / shape[1], i % shape[1]);
  });
}

// The argmax of a window of any size, as int32 or uint8.
template <typename Index>
void PlainMaxPoolPlane(const Pool2dAttributes& pool, const Plane& in,
                       const Plane& out, const float* x, float* y,
                       Index* argmax) {
  for (int64_t oh = 0; oh < out.height; ++oh) {
    for (int64_t ow = 0; ow < out.width; ++ow) {
      const int64_t top = oh * pool.stride.h - pool.padding.h;
      const int64_t left = ow * pool.stride.w - pool.padding.w;
      float best = -std::numeric_limits<float>::infinity();
      int64_t position = -1;
      for (int64_t k = 0; k < pool.kernel.h * pool.kernel.w; ++k) {
        const int64_t h = top + k / pool.kernel.w;
        const int64_t w = left + k % pool.kernel.w;
        if (h < 0 || h >= in.height || w < 0 || w >= in.width) continue;
        const float value = x[h * in.row_stride + w * in.column_stride];
        if (position >= 0 && !(value > best)) continue;
        best = value;
        position = k;
      }
      const int64_t at = oh * out.row_stride + ow * out.column_stride;
      y[at] = best;
      argmax[at] = static_cast<Index>(position);
    }
  }
}

template <typename Index>
void PlainMaxPoolGradPlane(const Pool2dAttributes& pool, const Plane& in,
                           const Plane& out, const float* dy,
                           const Index* argmax, float* dx) {
  for (int64_t oh = 0; oh < out.height; ++oh) {
    for (int64_t ow = 0; ow < out.width; ++ow) {
      const int64_t at = oh * out.row_stride + ow * out.column_stride;
      const int64_t k = argmax[at];
      const int64_t h = oh * pool.stride.h - pool.padding.h + k / pool.kernel.w;
      const int64_t w = ow * pool.stride.w - pool.padding.w + k % pool.kernel.w;
      dx[h * in.row_stride + w * in.column_stride] += dy[at];
    }
  }
}

template <typename Index>
KernelOr PlainMaxPool(const CompileRequest& request, int threads) {
  const Pool2dAttributes pool = request.node.get<Pool2dAttributes>();
  const Shape x = InputOf(request, 0).shape, y = OutputOf(request, 0).shape;
  const Layout layout = InputOf(request, 0).layout;
  return MakeKernel([=](const KernelArguments& at) {
    ForEachPlane(threads, x, [&](int64_t n, int64_t c) {
      const int64_t to = PlaneOffset(y, layout, n, c);
      PlainMaxPoolPlane(pool, PlaneOf(x, layout), PlaneOf(y, layout),
                        at.in(0) + PlaneOffset(x, layout, n, c), at.out(0) + to,
                        at.out<Index>(1) + to);
    });
  });
}

template <typename Index>
KernelOr PlainMaxPoolGrad(const CompileRequest& request, int threads) {
  const Pool2dAttributes pool = request.node.get<Pool2dGradAttributes>().pool;
  const Shape x = OutputOf(request, 0).shape, y = InputOf(request, 0).shape;
  const Layout layout = OutputOf(request, 0).layout;
  return MakeKernel([=](const KernelArguments& at) {
    std::memset(at.out(0), 0, x.bytes(DType::kFloat32));
    ForEachPlane(threads, x, [&](int64_t n, int64_t c) {
      const int64_t from = PlaneOffset(y, layout, n, c);
      PlainMaxPoolGradPlane(pool, PlaneOf(x, layout), PlaneOf(y, layout),
                            at.in(0) + from, at.in<Index>(1) + from,
                            at.out(0) + PlaneOffset(x, layout, n, c));
    });
  });
}

KernelOr MakeForward(const CompileRequest& request, const CpuContext& context) {
  const Op op = request.node.op;
  const auto& pool = request.node.get<Pool2dAttributes>();
  const auto x = DescOf(InputOf(request, 0));
  const auto y = DescOf(OutputOf(request, 0));
  const int threads = context.ThreadsForBytes(InputOf(request, 0).bytes());
  const ScopedThreads scope(threads);
  const auto primitive = ForwardPrimitive(op, pool, x, y, context);
  std::vector<Operand> operands = {{DNNL_ARG_SRC, x, Where::kInput, 0},
                                   {DNNL_ARG_DST, y, Where::kOutput, 0}};
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  if (pool.with_argmax) {
    const auto argmax = DescOf(OutputOf(request, 1));
    if (primitive.workspace_desc() != argmax) {
      return OutputOf(request, 1).dtype == DType::kUint8
                 ? PlainMaxPool<uint8_t>(request, threads)
                 : PlainMaxPool<int32_t>(request, threads);
    }
    operands.push_back({DNNL_ARG_WORKSPACE, argmax, Where::kOutput, 1});
  }
  kernel->AddStep(When::kRun, Forward(primitive), primitive.scratchpad_desc(),
                  std::move(operands));
  return kernel;
}

KernelOr MakeGradient(const CompileRequest& request,
                      const CpuContext& context) {
  const Op op = request.node.op;
  const auto& pool = request.node.get<Pool2dGradAttributes>().pool;
  const auto x = DescOf(OutputOf(request, 0));
  const auto y = DescOf(InputOf(request, 0));
  const int threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
  const ScopedThreads scope(threads);
  Pool2dAttributes forward = pool;
  forward.with_argmax = true;
  const auto hint =
      ForwardPrimitive(op == Op::kMaxPoolGrad ? Op::kMaxPool : Op::kAvgPool,
                       forward, x, y, context);
  std::vector<Operand> operands = {{DNNL_ARG_DIFF_DST, y, Where::kInput, 0},
                                   {DNNL_ARG_DIFF_SRC, x, Where::kOutput, 0}};
  if (op == Op::kMaxPoolGrad) {
    const auto argmax = DescOf(InputOf(request, 1));
    if (hint.workspace_desc() != argmax) {
      return InputOf(request, 1).dtype == DType::kUint8
                 ? PlainMaxPoolGrad<uint8_t>(request, threads)
                 : PlainMaxPoolGrad<int32_t>(request, threads);
    }
    operands.push_back({DNNL_ARG_WORKSPACE, argmax, Where::kInput, 1});
  }
  const Geometry g(pool);
  const Backward::primitive_desc primitive(
      Backward::desc(AlgorithmOf(op, pool), x, y, g.stride, g.kernel, g.padding,
                     g.padding),
      UserScratchpad(), context.engine(), hint);
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  kernel->AddStep(When::kRun, Backward(primitive), primitive.scratchpad_desc(),
                  std::move(operands));
  return kernel;
}

// x as [N, C, area], with strides that fit its layout.
struct Planes {
  int64_t images, channels, area;
  int64_t channel_stride, cell_stride;

  explicit Planes(const Shape& shape, Layout layout)
      : images(shape[0]),
        channels(shape[1]),
        area(shape.elements() / (images * channels)) {
    const bool last = layout == Layout::kChannelsLast;
    channel_stride = last ? 1 : area;
    cell_stride = last ? channels : 1;
  }
  int64_t offset(int64_t n, int64_t c) const {
    return n * channels * area + c * channel_stride;
  }
};

}  // namespace

KernelOr MakePool(const CompileRequest& request, const CpuContext& context) {
  const bool forward =
      request.node.op == Op::kMaxPool || request.node.op == Op::kAvgPool;
  return forward ? MakeForward(request, context)
                 : MakeGradient(request, context);
}

KernelOr MakeGlobalPool(const CompileRequest& request,
                        const CpuContext& context) {
  const bool forward = request.node.op == Op::kGlobalAvgPool;
  const Value& x = forward ? InputOf(request, 0) : OutputOf(request, 0);
  const Planes planes(x.shape, x.layout);
  const int threads = context.ThreadsForBytes(x.bytes());
  const float scale = 1.0f / static_cast<float>(planes.area);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, planes.images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t c = 0; c < planes.channels; ++c) {
          const int64_t pooled = n * planes.channels + c;
          const int64_t first = planes.offset(n, c);
          float sum = 0;
          for (int64_t i = 0; i < planes.area; ++i) {
            const int64_t cell = first + i * planes.cell_stride;
            if (forward) {
              sum += at.in(0)[cell];
            } else {
              at.out(0)[cell] = at.in(0)[pooled] * scale;
            }
          }
          if (forward) at.out(0)[pooled] = sum * scale;
        }
      }
    });
  });
}

}  // namespace gpupool::engine
