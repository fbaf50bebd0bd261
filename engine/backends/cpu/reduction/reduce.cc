// Reductions over any axes, positions of extremes, running sums. The order of
// the sums does not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/reduction/reduce.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/reduction/reduce_loops.h"
#include "engine/backends/function_kernel.h"
#include "engine/backends/strides.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using V = FloatVector;

struct SumCombine {
  static constexpr float kNeutral = 0;
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
  float operator()(float a, float b) const { return a + b; }
};
struct ProductCombine {
  static constexpr float kNeutral = 1;
  HWY_INLINE V operator()(V a, V b) const { return hn::Mul(a, b); }
  float operator()(float a, float b) const { return a * b; }
};
// NaN wins over every number.
struct MaxCombine {
  static constexpr float kNeutral = -HUGE_VALF;
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a,
                          hn::IfThenElse(hn::IsNaN(b), b, hn::Max(a, b)));
  }
  float operator()(float a, float b) const { return a != a || a > b ? a : b; }
};
struct MinCombine {
  static constexpr float kNeutral = HUGE_VALF;
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a,
                          hn::IfThenElse(hn::IsNaN(b), b, hn::Min(a, b)));
  }
  float operator()(float a, float b) const { return a != a || a < b ? a : b; }
};

// Reduces x[0 .. count). Four independent chains hide the latency.
template <class F>
HWY_ATTR float ReduceRow(const float* x, int64_t count) {
  const FloatTag d;
  const F combine;
  const int64_t lanes = FloatLanes();
  V a = hn::Set(d, F::kNeutral), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = combine(a, hn::LoadU(d, x + i));
    b = combine(b, hn::LoadU(d, x + i + lanes));
    c = combine(c, hn::LoadU(d, x + i + 2 * lanes));
    e = combine(e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) {
    a = combine(a, hn::LoadU(d, x + i));
  }
  HWY_ALIGN float parts[16];
  hn::Store(combine(combine(a, b), combine(c, e)), d, parts);
  float result = parts[0];
  for (int64_t k = 1; k < lanes; ++k) result = combine(result, parts[k]);
  for (; i < count; ++i) result = combine(result, x[i]);
  return result;
}

// Computes y[c] = combine(y[c], x[r * stride + c] for all r).
template <class F>
HWY_ATTR void ReduceColumns(const float* x, int64_t rows, int64_t stride,
                            float* y, int64_t columns) {
  const FloatTag d;
  const F combine;
  const int64_t lanes = FloatLanes();
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) {
    V a = hn::LoadU(d, y + c), b = hn::LoadU(d, y + c + lanes);
    V e = hn::LoadU(d, y + c + 2 * lanes), f = hn::LoadU(d, y + c + 3 * lanes);
    const float* from = x + c;
    for (int64_t r = 0; r < rows; ++r, from += stride) {
      a = combine(a, hn::LoadU(d, from));
      b = combine(b, hn::LoadU(d, from + lanes));
      e = combine(e, hn::LoadU(d, from + 2 * lanes));
      f = combine(f, hn::LoadU(d, from + 3 * lanes));
    }
    hn::StoreU(a, d, y + c);
    hn::StoreU(b, d, y + c + lanes);
    hn::StoreU(e, d, y + c + 2 * lanes);
    hn::StoreU(f, d, y + c + 3 * lanes);
  }
  for (; c + lanes <= columns; c += lanes) {
    V a = hn::LoadU(d, y + c);
    for (int64_t r = 0; r < rows; ++r) {
      a = combine(a, hn::LoadU(d, x + r * stride + c));
    }
    hn::StoreU(a, d, y + c);
  }
  for (; c < columns; ++c) {
    float a = y[c];
    for (int64_t r = 0; r < rows; ++r) a = combine(a, x[r * stride + c]);
    y[c] = a;
  }
}

template <class F>
ReduceLoops LoopsOf() {
  return {ReduceRow<F>, ReduceColumns<F>, F::kNeutral};
}

ReduceLoops FindReduce(ReduceFunction function) {
  switch (function) {
    case ReduceFunction::kMax:
      return LoopsOf<MaxCombine>();
    case ReduceFunction::kMin:
      return LoopsOf<MinCombine>();
    case ReduceFunction::kProduct:
      return LoopsOf<ProductCombine>();
    default:
      return LoopsOf<SumCombine>();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(FindReduce);

constexpr int64_t kNumbersPerPart = 64 << 10;
constexpr int64_t kColumnsPerItem = 1024;
// Narrow rows that are read together as one wide row, which fills vectors.
constexpr int64_t kFold = 16;
constexpr int64_t kNarrow = kColumnsPerItem / kFold;

// x as [outer_rows, groups, rows, columns]. outer_rows and rows are reduced.
struct ReduceShape {
  int64_t outer_rows = 1, groups = 1, rows = 1, columns = 1;
};

// Returns false when the reduced axes are too scattered for this form, or when
// the kept axes have another order in the result.
bool ShapeOf(const Value& x, const Value& y, const std::vector<int>& axes,
             ReduceShape* shape) {
  int64_t* const parts[] = {&shape->outer_rows, &shape->groups, &shape->rows,
                            &shape->columns};
  const bool images = y.shape.rank() == x.shape.rank() && y.layout == x.layout;
  const std::vector<int> order = MemoryOrder(x.shape.rank(), x.layout);
  // Walks from the innermost axis outwards. Neighbouring axes that are both
  // kept or both reduced form one part: 3 and 1 are kept, 2 and 0 reduced.
  int part = 3;
  int next = x.shape.rank();  // the last kept axis so far
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (x.shape[*axis] == 1) continue;
    const bool reduced =
        std::find(axes.begin(), axes.end(), *axis) != axes.end();
    if (!reduced && !images) {
      if (*axis > next) return false;
      next = *axis;
    }
    if (reduced != (part % 2 == 0)) --part;
    if (part < 0) return false;
    *parts[part] *= x.shape[*axis];
  }
  // Kept axes that are not the innermost can be columns, too.
  if (shape->outer_rows == 1 && shape->rows == 1 && shape->columns == 1) {
    std::swap(shape->groups, shape->columns);
  }
  return true;
}

class ReduceProgram {
 public:
  ReduceProgram(const ReduceShape& shape, const ReduceAttributes& attributes,
                int threads)
      : s_(shape),
        loops_(HWY_DYNAMIC_DISPATCH(FindReduce)(attributes.function)),
        threads_(threads) {
    if (attributes.function == ReduceFunction::kMean) {
      scale_ = 1.0f / static_cast<float>(s_.outer_rows * s_.rows);
    }
    // Few results of many numbers: partial results keep all threads busy.
    const int64_t per_row = s_.groups * s_.columns;
    if (s_.outer_rows == 1 && s_.rows * s_.columns > 2 * kNumbersPerPart &&
        per_row <= kColumnsPerItem) {
      rows_per_part_ = std::max<int64_t>(1, kNumbersPerPart / s_.columns);
      parts_ = (s_.rows + rows_per_part_ - 1) / rows_per_part_;
    } else {
      rows_per_part_ = s_.rows;
    }
  }

  uint64_t workspace_bytes() const {
    if (parts_ == 1) return 0;
    return static_cast<uint64_t>(parts_ * s_.groups * s_.columns) * 4;
  }

  void Run(const KernelArguments& at) const {
    const int64_t results = s_.groups * s_.columns;
    float* y = parts_ == 1 ? at.out(0) : at.workspace();
    const int64_t chunks = (s_.columns + kColumnsPerItem - 1) / kColumnsPerItem;
    const int64_t items = parts_ * s_.groups * chunks;
    ParallelFor(threads_, items, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i / (s_.groups * chunks);
        RunItem(at.in(0), y + part * results, part, i / chunks % s_.groups,
                i % chunks * kColumnsPerItem);
      }
    });
    float* out = at.out(0);
    if (parts_ > 1) {
      std::fill(out, out + results, loops_.neutral);
      loops_.columns(y, parts_, results, out, results);
    }
    if (scale_ != 1) {
      for (int64_t i = 0; i < results; ++i) out[i] *= scale_;
    }
  }

 private:
  void RunItem(const float* x, float* y, int64_t part, int64_t group,
               int64_t column) const {
    const int64_t first = part * rows_per_part_;
    const int64_t rows = std::min(rows_per_part_, s_.rows - first);
    const int64_t columns = std::min(kColumnsPerItem, s_.columns - column);
    float* to = y + group * s_.columns + column;
    std::fill(to, to + columns, loops_.neutral);
    for (int64_t outer = 0; outer < s_.outer_rows; ++outer) {
      const int64_t row = (outer * s_.groups + group) * s_.rows + first;
      const float* from = x + row * s_.columns + column;
      if (s_.columns > 1 && s_.columns < kNarrow) {
        AddNarrow(from, rows, to);
      } else if (s_.columns > 1) {
        loops_.columns(from, rows, s_.columns, to, columns);
      } else {
        // Joins both by the loops' own operation, which keeps NaN.
        const float pair[2] = {*to, loops_.row(from, rows)};
        *to = loops_.row(pair, 2);
      }
    }
  }

  // Computes to[c] = combine(to[c], x[r * columns + c] for all r).
  void AddNarrow(const float* x, int64_t rows, float* to) const {
    const int64_t wide = kFold * s_.columns;
    const int64_t folded = rows / kFold;
    if (folded > 1) {
      std::array<float, kColumnsPerItem> sums;
      std::fill(sums.begin(), sums.end(), loops_.neutral);
      loops_.columns(x, folded, wide, sums.data(), wide);
      loops_.columns(sums.data(), kFold, s_.columns, to, s_.columns);
      x += folded * wide;
      rows -= folded * kFold;
    }
    loops_.columns(x, rows, s_.columns, to, s_.columns);
  }

  ReduceShape s_;
  ReduceLoops loops_;
  int threads_;
  float scale_ = 1;
  int64_t rows_per_part_ = 1;
  int64_t parts_ = 1;
};

// x as [outer, cells, inner] around one axis.
struct AxisShape {
  int64_t outer = 1, cells = 1, inner = 1;
};

AxisShape AxisShapeOf(const Shape& x, int axis) {
  AxisShape s;
  s.cells = x[axis];
  for (int i = 0; i < axis; ++i) s.outer *= x[i];
  for (int i = axis + 1; i < x.rank(); ++i) s.inner *= x[i];
  return s;
}

// Returns whether x is nearer to the wanted end than `best`. NaN beats every
// number.
bool Better(const ArgReduceAttributes& reduce, float x, float best) {
  if (best != best) return reduce.last && x != x;
  if (x != x) return true;
  if (x == best) return reduce.last;
  return (x > best) == reduce.maximum;
}

KernelOr MakeArgReduce(const CompileRequest& request, int threads) {
  const auto& reduce = request.node.get<ArgReduceAttributes>();
  const AxisShape s = AxisShapeOf(InputOf(request, 0).shape, reduce.axis);
  return MakeKernel([=](const KernelArguments& at) {
    const int64_t lanes = s.outer * s.inner;
    ParallelFor(threads, lanes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin; lane < end; ++lane) {
        const float* x =
            at.in(0) + lane / s.inner * s.cells * s.inner + lane % s.inner;
        int64_t best = 0;
        for (int64_t k = 1; k < s.cells; ++k) {
          if (Better(reduce, x[k * s.inner], x[best * s.inner])) best = k;
        }
        at.out<int64_t>(0)[lane] = best;
      }
    });
  });
}

KernelOr MakeCumSum(const CompileRequest& request, int threads) {
  const auto& sum = request.node.get<CumSumAttributes>();
  const AxisShape s = AxisShapeOf(InputOf(request, 0).shape, sum.axis);
  return MakeKernel([=](const KernelArguments& at) {
    const int64_t lanes = s.outer * s.inner;
    ParallelFor(threads, lanes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin; lane < end; ++lane) {
        const int64_t first =
            lane / s.inner * s.cells * s.inner + lane % s.inner;
        double total = 0;
        for (int64_t k = 0; k < s.cells; ++k) {
          const int64_t cell = sum.reverse ? s.cells - 1 - k : k;
          const int64_t i = first + cell * s.inner;
          const double x = at.in(0)[i];
          at.out(0)[i] = static_cast<float>(sum.exclusive ? total : total + x);
          total += x;
        }
      }
    });
  });
}

}  // namespace

KernelOr MakeReduce(const CompileRequest& request, const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  if (x.dtype != DType::kFloat32 || x.shape.elements() == 0) return nullptr;
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  if (request.node.op != Op::kReduce && x.layout != Layout::kRowMajor) {
    return nullptr;
  }
  if (request.node.op == Op::kArgReduce) {
    return MakeArgReduce(request, threads);
  }
  if (request.node.op == Op::kCumSum) return MakeCumSum(request, threads);
  const auto& attributes = request.node.get<ReduceAttributes>();
  ReduceShape shape;
  if (!ShapeOf(x, OutputOf(request, 0), attributes.axes, &shape)) {
    return nullptr;
  }
  const ReduceProgram program(shape, attributes, threads);
  return MakeKernel([program](const KernelArguments& at) { program.Run(at); },
                    program.workspace_bytes());
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
