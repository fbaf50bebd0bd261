#include "engine/backends/cpu/image/pool_plain.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/backends/cpu/image/planes.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "engine/graph/window.h"

namespace gpupool::engine {
namespace {

// Everything about a pool except its addresses.
struct Plan {
  Pool2dAttributes pool;
  Window window;
  Planes x, y;
  int threads;

  // Calls body(first, end, y cell) for a range of planes (n * channels + c) and
  // each cell of the output. A plane belongs to one thread, so gradients may
  // add to it.
  template <typename Body>
  void ForEach(const Body& body) const {
    ParallelFor(threads, x.images * x.channels, 1,
                [&](int64_t first, int64_t end) {
                  for (int64_t cell = 0; cell < y.area; ++cell) {
                    body(first, end, cell);
                  }
                });
  }
};

Plan PlanOf(const Pool2dAttributes& pool, const Value& x, const Value& y,
            int threads) {
  return {pool, WindowOf(pool, x.shape), Planes(x.shape, x.layout),
          Planes(y.shape, y.layout), threads};
}

// Returns the divisor of an average over the window of output cell `y`.
float Divisor(const Plan& plan, int64_t y) {
  Window window = plan.window;
  if (!plan.pool.exclude_padding) {
    // Padding counts as if it were input.
    for (WindowAxis& axis : window) {
      axis.input += axis.begin + axis.end;
      axis.begin = axis.end = 0;
    }
  }
  int64_t cells = 0;
  for (int64_t k = 0; k < KernelCells(window); ++k) {
    cells += InputCell(window, y, k) >= 0 ? 1 : 0;
  }
  return static_cast<float>(std::max<int64_t>(cells, 1));
}

template <typename Index>
KernelOr MaxPool(const Plan& plan) {
  return MakeKernel([plan](const KernelArguments& at) {
    const bool with_argmax = plan.pool.with_argmax;
    plan.ForEach([&](int64_t first, int64_t end, int64_t y) {
      for (int64_t p = first; p < end; ++p) {
        const int64_t to = plan.y.offset(p, y);
        at.out(0)[to] = -std::numeric_limits<float>::infinity();
        if (with_argmax) at.out<Index>(1)[to] = 0;
      }
      bool seen = false;
      for (int64_t k = 0; k < KernelCells(plan.window); ++k) {
        const int64_t cell = InputCell(plan.window, y, k);
        if (cell < 0) continue;
        for (int64_t p = first; p < end; ++p) {
          const int64_t to = plan.y.offset(p, y);
          const float value = at.in(0)[plan.x.offset(p, cell)];
          // The first cell always counts, since it may be -infinity or NaN.
          if (seen && !(value > at.out(0)[to])) continue;
          at.out(0)[to] = value;
          if (with_argmax) at.out<Index>(1)[to] = static_cast<Index>(k);
        }
        seen = true;
      }
    });
  });
}

template <typename Index>
KernelOr MaxPoolGrad(const Plan& plan, uint64_t bytes) {
  return MakeKernel([plan, bytes](const KernelArguments& at) {
    std::memset(at.out(0), 0, bytes);
    plan.ForEach([&](int64_t first, int64_t end, int64_t y) {
      for (int64_t p = first; p < end; ++p) {
        const int64_t from = plan.y.offset(p, y);
        const int64_t cell = InputCell(plan.window, y, at.in<Index>(1)[from]);
        if (cell < 0) continue;
        at.out(0)[plan.x.offset(p, cell)] += at.in(0)[from];
      }
    });
  });
}

KernelOr AvgPool(const Plan& plan) {
  return MakeKernel([plan](const KernelArguments& at) {
    plan.ForEach([&](int64_t first, int64_t end, int64_t y) {
      for (int64_t p = first; p < end; ++p) at.out(0)[plan.y.offset(p, y)] = 0;
      const float scale = 1.0f / Divisor(plan, y);
      for (int64_t k = 0; k < KernelCells(plan.window); ++k) {
        const int64_t cell = InputCell(plan.window, y, k);
        if (cell < 0) continue;
        for (int64_t p = first; p < end; ++p) {
          at.out(0)[plan.y.offset(p, y)] +=
              at.in(0)[plan.x.offset(p, cell)] * scale;
        }
      }
    });
  });
}

KernelOr AvgPoolGrad(const Plan& plan, uint64_t bytes) {
  return MakeKernel([plan, bytes](const KernelArguments& at) {
    std::memset(at.out(0), 0, bytes);
    plan.ForEach([&](int64_t first, int64_t end, int64_t y) {
      const float scale = 1.0f / Divisor(plan, y);
      for (int64_t k = 0; k < KernelCells(plan.window); ++k) {
        const int64_t cell = InputCell(plan.window, y, k);
        if (cell < 0) continue;
        for (int64_t p = first; p < end; ++p) {
          at.out(0)[plan.x.offset(p, cell)] +=
              at.in(0)[plan.y.offset(p, y)] * scale;
        }
      }
    });
  });
}

}  // namespace

const Pool2dAttributes& PoolOf(const Node& node) {
  if (node.op == Op::kMaxPool || node.op == Op::kAvgPool) {
    return node.get<Pool2dAttributes>();
  }
  return node.get<Pool2dGradAttributes>().pool;
}

KernelOr MakePlainPool(const CompileRequest& request, int threads) {
  const Pool2dAttributes& pool = PoolOf(request.node);
  const Value& in = InputOf(request, 0);
  const Value& out = OutputOf(request, 0);
  if (in.dtype != DType::kFloat32) return nullptr;
  const bool small = pool.kernel.cells() <= 256;
  switch (request.node.op) {
    case Op::kMaxPool: {
      const Plan plan = PlanOf(pool, in, out, threads);
      return small ? MaxPool<uint8_t>(plan) : MaxPool<int32_t>(plan);
    }
    case Op::kAvgPool:
      return AvgPool(PlanOf(pool, in, out, threads));
    case Op::kMaxPoolGrad: {
      const Plan plan = PlanOf(pool, out, in, threads);
      return small ? MaxPoolGrad<uint8_t>(plan, out.bytes())
                   : MaxPoolGrad<int32_t>(plan, out.bytes());
    }
    default:
      return AvgPoolGrad(PlanOf(pool, out, in, threads), out.bytes());
  }
}

}  // namespace gpupool::engine
