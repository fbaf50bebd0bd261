// Softmax and its logarithm over the last dimension and their gradients, row by
// row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/reduction/softmax.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <algorithm>
#include <cmath>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

void SoftmaxRow(const float* x, const float*, float* y, int64_t count) {
  const FloatTag d;
  const int64_t lanes = FloatLanes();
  const FloatVector greatest = hn::Set(d, MaxOf(x, count));
  // Two independent chains of additions hide their latency.
  FloatVector even = hn::Zero(d), odd = even;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const FloatVector a = ExpOf(hn::Sub(hn::LoadU(d, x + i), greatest));
    const FloatVector b = ExpOf(hn::Sub(hn::LoadU(d, x + i + lanes), greatest));
    even = hn::Add(even, a);
    odd = hn::Add(odd, b);
    hn::StoreU(a, d, y + i);
    hn::StoreU(b, d, y + i + lanes);
  }
  for (; i < count; i += lanes) {
    const int64_t rest = std::min(lanes, count - i);
    // The missing lanes are -infinity and so add exp(-infinity) = 0.
    const FloatVector v =
        rest == lanes ? hn::LoadU(d, x + i) : LoadPart(x + i, rest, -HUGE_VALF);
    const FloatVector e = ExpOf(hn::Sub(v, greatest));
    even = hn::Add(even, e);
    if (rest == lanes) {
      hn::StoreU(e, d, y + i);
    } else {
      StorePart(e, y + i, rest);
    }
  }
  const FloatVector scale =
      hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, hn::Add(even, odd)));
  MapRow(y, y, count,
         [&](FloatVector v) HWY_ATTR { return hn::Mul(v, scale); });
}

// Computes dx = y * (dy - sum(dy * y)).
void SoftmaxGradRow(const float* dy, const float* y, float* dx, int64_t count) {
  const FloatTag d;
  FloatVector lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    lanes = hn::MulAdd(hn::LoadU(d, dy + i), hn::LoadU(d, y + i), lanes);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  for (; i < count; ++i) sum += dy[i] * y[i];
  for (i = 0; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector centred = hn::Sub(hn::LoadU(d, dy + i), hn::Set(d, sum));
    hn::StoreU(hn::Mul(hn::LoadU(d, y + i), centred), d, dx + i);
  }
  for (; i < count; ++i) dx[i] = y[i] * (dy[i] - sum);
}

// Computes y = x - log(sum(exp(x))).
void LogSoftmaxRow(const float* x, const float*, float* y, int64_t count) {
  const FloatTag d;
  const float greatest = MaxOf(x, count);
  const FloatVector centre = hn::Set(d, greatest);
  FloatVector lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    lanes = hn::Add(lanes, ExpOf(hn::Sub(hn::LoadU(d, x + i), centre)));
  }
  if (i < count) {
    const FloatVector rest = LoadPart(x + i, count - i, -HUGE_VALF);
    lanes = hn::Add(lanes, ExpOf(hn::Sub(rest, centre)));
  }
  const float sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  const FloatVector shift = hn::Set(d, greatest + std::log(sum));
  MapRow(x, y, count,
         [&](FloatVector v) HWY_ATTR { return hn::Sub(v, shift); });
}

// Computes dx = dy - exp(y) * sum(dy).
void LogSoftmaxGradRow(const float* dy, const float* y, float* dx,
                       int64_t count) {
  const FloatTag d;
  const FloatVector lanes = ReduceLanes(dy, count, 0.0f,
                                        [](FloatVector a, FloatVector b)
                                            HWY_ATTR { return hn::Add(a, b); });
  const FloatVector sum = hn::SumOfLanes(d, lanes);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector p = ExpOf(hn::LoadU(d, y + i));
    hn::StoreU(hn::NegMulAdd(p, sum, hn::LoadU(d, dy + i)), d, dx + i);
  }
  if (i == count) return;
  const FloatVector p = ExpOf(LoadPart(y + i, count - i, 0.0f));
  StorePart(hn::NegMulAdd(p, sum, LoadPart(dy + i, count - i, 0.0f)), dx + i,
            count - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SoftmaxGradRow);
HWY_EXPORT(LogSoftmaxRow);
HWY_EXPORT(LogSoftmaxGradRow);

constexpr uint64_t kFlopsPerElement = 30;  // an exponential

using Row = void (*)(const float*, const float*, float*, int64_t);

Row RowOf(Op op) {
  switch (op) {
    case Op::kSoftmax:
      return HWY_DYNAMIC_DISPATCH(SoftmaxRow);
    case Op::kSoftmaxGrad:
      return HWY_DYNAMIC_DISPATCH(SoftmaxGradRow);
    case Op::kLogSoftmax:
      return HWY_DYNAMIC_DISPATCH(LogSoftmaxRow);
    default:
      return HWY_DYNAMIC_DISPATCH(LogSoftmaxGradRow);
  }
}
}  // namespace

KernelOr MakeSoftmax(const CompileRequest& request, const CpuContext& context) {
  const Value& y = OutputOf(request, 0);
  const int64_t columns = y.shape.rank() == 0 ? 1 : y.shape[y.shape.rank() - 1];
  const int64_t rows = y.shape.elements() / columns;
  const int threads = context.ThreadsForFlops(
      static_cast<uint64_t>(y.shape.elements()) * kFlopsPerElement);
  // y of a gradient. Softmax itself has one input, which its row function
  // ignores.
  const size_t second = request.node.inputs.size() - 1;
  const Row row = RowOf(request.node.op);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        row(at.in(0) + r * columns, at.in(second) + r * columns,
            at.out(0) + r * columns, columns);
      }
    });
  });
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
