// Column sum and the clip coefficient. Sums have a fixed order that does not
// depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/reduction/reduction.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <cmath>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_REDUCTION_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_REDUCTION_CC_
namespace gpupool::engine {
struct Matrix {
  const float* numbers;
  int64_t rows, columns;
};
}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_REDUCTION_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Sums up the matrix's columns [begin, end).
void ColumnSumRange(Matrix matrix, float* y, int64_t begin, int64_t end) {
  const auto [x, rows, columns] = matrix;
  const FloatTag d;
  int64_t c = begin;
  for (; c + FloatLanes() <= end; c += FloatLanes()) {
    FloatVector sum = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r) {
      sum = hn::Add(sum, hn::LoadU(d, x + r * columns + c));
    }
    hn::StoreU(sum, d, y + c);
  }
  for (; c < end; ++c) {
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += x[r * columns + c];
    y[c] = sum;
  }
}

double SumOfSquares(const float* x, int64_t count) {
  const FloatTag d;
  FloatVector lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector v = hn::LoadU(d, x + i);
    lanes = hn::MulAdd(v, v, lanes);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  for (; i < count; ++i) sum += double{x[i]} * x[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(ColumnSumRange);
HWY_EXPORT(SumOfSquares);

constexpr int64_t kNumbersPerSum = 4096;

struct Part {
  size_t input;
  int64_t begin, count;
};

std::vector<Part> PartsOf(const CompileRequest& request) {
  std::vector<Part> parts;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    const int64_t elements = InputOf(request, i).shape.elements();
    for (int64_t at = 0; at < elements; at += kNumbersPerSum) {
      parts.push_back({i, at, std::min(kNumbersPerSum, elements - at)});
    }
  }
  return parts;
}

KernelOr MakeGlobalNorm(const CompileRequest& request,
                        const CpuContext& context) {
  std::vector<Part> parts = PartsOf(request);
  const auto count = static_cast<int64_t>(parts.size());
  const int threads = context.ThreadsForBytes(
      static_cast<uint64_t>(count * kNumbersPerSum) * sizeof(float));
  const auto sum_of_squares = HWY_DYNAMIC_DISPATCH(SumOfSquares);
  auto run = [=, parts = std::move(parts)](const KernelArguments& at) {
    double* sums = at.workspace<double>();
    ParallelFor(threads, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Part& part = parts[static_cast<size_t>(i)];
        sums[i] = sum_of_squares(at.in(part.input) + part.begin, part.count);
      }
    });
    // In the order of the parts, whichever thread made them.
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += sums[i];
    *at.out(0) = static_cast<float>(std::sqrt(total));
  };
  return MakeKernel(std::move(run),
                    static_cast<uint64_t>(count) * sizeof(double));
}

}  // namespace

KernelOr MakeReduction(const CompileRequest& request,
                       const CpuContext& context) {
  if (request.node.op == Op::kGlobalNorm) {
    return MakeGlobalNorm(request, context);
  }
  const Value& x = InputOf(request, 0);
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  const auto sum = HWY_DYNAMIC_DISPATCH(ColumnSumRange);
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, columns, 16, [&](int64_t begin, int64_t end) {
      sum({at.in(0), rows, columns}, at.out(0), begin, end);
    });
  });
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
