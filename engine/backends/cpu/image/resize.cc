// Resize and its gradient, one axis after the other. Along an axis an image of
// any layout is [outer, axis, inner] in memory, and a cell of the output is a
// weighted sum of rows of `inner` numbers.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "engine/backends/strides.h"
#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

// One axis of a resize, from `input` to `output` cells. The gradient goes the
// other way.
struct Pass {
  int64_t outer, inner, input, output;
  int taps;
  std::vector<int64_t> indices;
  std::vector<float> weights;

  int64_t from_elements(bool gradient) const {
    return outer * inner * (gradient ? output : input);
  }
  int64_t to_elements(bool gradient) const {
    return outer * inner * (gradient ? input : output);
  }
};

// Returns the passes in the order of the forward computation. Axes that shrink
// most come first, so that later passes have less to do.
std::vector<Pass> PassesOf(const ResizeAttributes& resize, const Shape& input,
                           Layout layout) {
  std::vector<ResizeAxis> axes = resize.axes;
  std::stable_sort(axes.begin(), axes.end(),
                   [&input](const ResizeAxis& a, const ResizeAxis& b) {
                     return a.size * input[b.axis] < b.size * input[a.axis];
                   });
  std::vector<int64_t> dims(input.dims().begin(), input.dims().end());
  const std::vector<int> order = MemoryOrder(input.rank(), layout);
  std::vector<Pass> passes;
  for (ResizeAxis& axis : axes) {
    Pass pass{1,         1,         dims[static_cast<size_t>(axis.axis)],
              axis.size, axis.taps, std::move(axis.indices),
              {}};
    bool behind = false;
    for (const int at : order) {
      if (at == axis.axis) {
        behind = true;
      } else {
        (behind ? pass.inner : pass.outer) *= dims[static_cast<size_t>(at)];
      }
    }
    pass.weights.assign(axis.weights.begin(), axis.weights.end());
    dims[static_cast<size_t>(axis.axis)] = axis.size;
    passes.push_back(std::move(pass));
  }
  return passes;
}

void AddScaled(const float* from, float weight, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += weight * from[i];
}

// Computes one output cell from the taps of its row.
float WeightedSum(const Pass& pass, const float* x, int64_t cell) {
  float sum = 0;
  for (int64_t t = cell * pass.taps; t < (cell + 1) * pass.taps; ++t) {
    const auto tap = static_cast<size_t>(t);
    sum += pass.weights[tap] * x[pass.indices[tap]];
  }
  return sum;
}

void ForwardRow(const Pass& pass, const float* x, int64_t cell, float* y) {
  const auto first = static_cast<size_t>(cell * pass.taps);
  const auto row = [&](size_t tap) {
    return x + pass.indices[tap] * pass.inner;
  };
  const float weight = pass.weights[first];
  if (pass.taps == 1 && weight == 1.0f) {
    std::memcpy(y, row(first), static_cast<size_t>(pass.inner) * sizeof(float));
    return;
  }
  const float* from = row(first);
#pragma omp simd
  for (int64_t i = 0; i < pass.inner; ++i) y[i] = weight * from[i];
  for (size_t tap = first + 1; tap < first + static_cast<size_t>(pass.taps);
       ++tap) {
    AddScaled(row(tap), pass.weights[tap], pass.inner, y);
  }
}

void Forward(const Pass& pass, int threads, const float* x, float* y) {
  const int64_t rows = pass.outer * pass.output;
  ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x + row / pass.output * pass.input * pass.inner;
      if (pass.inner == 1) {
        y[row] = WeightedSum(pass, from, row % pass.output);
      } else {
        ForwardRow(pass, from, row % pass.output, y + row * pass.inner);
      }
    }
  });
}

// Several cells may add to one row, so a thread owns whole blocks.
void Backward(const Pass& pass, int threads, const float* dy, float* dx) {
  ParallelFor(threads, pass.outer, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* to = dx + block * pass.input * pass.inner;
      const float* from = dy + block * pass.output * pass.inner;
      std::fill(to, to + pass.input * pass.inner, 0.0f);
      for (int64_t t = 0; t < pass.output * pass.taps; ++t) {
        const auto tap = static_cast<size_t>(t);
        AddScaled(from + t / pass.taps * pass.inner, pass.weights[tap],
                  pass.inner, to + pass.indices[tap] * pass.inner);
      }
    }
  });
}

}  // namespace

KernelOr MakeResize(const CompileRequest& request, const CpuContext& context) {
  const bool gradient = request.node.op == Op::kResizeGrad;
  const Value& y = OutputOf(request, 0);
  const auto& resize = gradient
                           ? request.node.get<ResizeGradAttributes>().resize
                           : request.node.get<ResizeAttributes>();
  const Shape& input = gradient ? y.shape : InputOf(request, 0).shape;
  std::vector<Pass> passes = PassesOf(resize, input, y.layout);
  if (gradient) std::reverse(passes.begin(), passes.end());
  if (passes.empty()) return nullptr;
  const int threads =
      context.ThreadsForBytes(std::max(y.bytes(), InputOf(request, 0).bytes()));
  // Passes before the last one write to the halves of the workspace in turn.
  uint64_t half = 0;
  for (size_t i = 0; i + 1 < passes.size(); ++i) {
    const int64_t elements = passes[i].to_elements(gradient);
    half = std::max(half,
                    AlignUp(static_cast<uint64_t>(elements) * sizeof(float)));
  }
  return MakeKernel(
      [=, passes = std::move(passes)](const KernelArguments& at) {
        const float* from = at.in(0);
        for (size_t i = 0; i < passes.size(); ++i) {
          float* to = i + 1 == passes.size()
                          ? at.out(0)
                          : at.workspace() + i % 2 * (half / sizeof(float));
          (gradient ? Backward : Forward)(passes[i], threads, from, to);
          from = to;
        }
      },
      2 * half);
}

}  // namespace gpupool::engine
