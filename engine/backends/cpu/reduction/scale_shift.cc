// Scale and shift of features.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/reduction/scale_shift.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

void ScaleShiftRow(const float* x, const float* scale, const float* shift,
                   float* y, int64_t count) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, scale + i),
                          hn::LoadU(d, shift + i)),
               d, y + i);
  }
  for (; i < count; ++i) y[i] = x[i] * scale[i] + shift[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {
HWY_EXPORT(ScaleShiftRow);
}  // namespace

KernelOr MakeScaleShift(const CompileRequest& request,
                        const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  const int64_t rows = x.shape[0];
  const int64_t columns = InputOf(request, 1).shape.elements();
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  const auto row = HWY_DYNAMIC_DISPATCH(ScaleShiftRow);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        row(at.in(0) + r * columns, at.in(1), at.in(2), at.out(0) + r * columns,
            columns);
      }
    });
  });
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
