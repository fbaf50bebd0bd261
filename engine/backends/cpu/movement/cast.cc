// Casts between any two element types.
#include "engine/backends/cpu/kernel/half_rows.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// Converts 16-bit numbers to float32 or back.
KernelOr MakeHalfCast(DType from, DType to, int64_t count, int threads) {
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, count, 64, [&](int64_t begin, int64_t end) {
      if (IsHalf(from)) {
        FloatsFromHalf(from, at.in<uint16_t>(0) + begin, at.out(0) + begin,
                       end - begin);
      } else {
        HalfFromFloats(to, at.in(0) + begin, at.out<uint16_t>(0) + begin,
                       end - begin);
      }
    });
  });
}

}  // namespace

KernelOr MakeCast(const CompileRequest& request, const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  if (x.layout != y.layout) return nullptr;
  const DType from = x.dtype, to = y.dtype;
  const int64_t count = y.shape.elements();
  const int threads = context.ThreadsForBytes(x.bytes() + y.bytes());
  const bool widens = IsHalf(from) && to == DType::kFloat32;
  const bool narrows = from == DType::kFloat32 && IsHalf(to);
  if (widens || narrows) return MakeHalfCast(from, to, count, threads);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, count, 64, [&](int64_t begin, int64_t end) {
      const auto first = static_cast<uint64_t>(begin);
      ConvertElements(from, at.in<std::byte>(0) + first * SizeOf(from), to,
                      at.out<std::byte>(0) + first * SizeOf(to), end - begin);
    });
  });
}

}  // namespace gpupool::engine
