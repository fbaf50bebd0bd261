// Gather along an axis, and its gradient.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"

namespace gpupool::engine {
namespace {

// x [outer, cells, inner] and indices [count] give [outer, count, inner].
struct GatherShape {
  int64_t outer = 1, cells = 1, inner = 1, count = 1;
  int64_t inner_bytes = 0;
  bool wide = false;  // indices are int64
  int threads = 1;

  // Returns index i of the indices counted from 0, or `cells` when it is
  // outside.
  int64_t Index(const std::byte* indices, int64_t i) const {
    const int64_t index =
        wide ? reinterpret_cast<const int64_t*>(indices)[i]
             : int64_t{reinterpret_cast<const int32_t*>(indices)[i]};
    if (index < -cells || index >= cells) return cells;
    return index < 0 ? index + cells : index;
  }
};

GatherShape ShapeOf(const Shape& x, int axis, const Value& indices,
                    DType dtype) {
  GatherShape g;
  g.cells = x[axis];
  for (int i = 0; i < axis; ++i) g.outer *= x[i];
  for (int i = axis + 1; i < x.rank(); ++i) g.inner *= x[i];
  g.count = indices.shape.elements();
  g.inner_bytes = g.inner * static_cast<int64_t>(SizeOf(dtype));
  g.wide = indices.dtype == DType::kInt64;
  return g;
}

absl::Status CheckIndices(const GatherShape& g, const std::byte* indices) {
  for (int64_t i = 0; i < g.count; ++i) {
    if (g.Index(indices, i) < g.cells) continue;
    const int64_t index =
        g.wide ? reinterpret_cast<const int64_t*>(indices)[i]
               : int64_t{reinterpret_cast<const int32_t*>(indices)[i]};
    return absl::InvalidArgumentError(
        absl::StrCat("index ", index, " at position ", i, " is not in ",
                     -g.cells, " .. ", g.cells - 1));
  }
  return absl::OkStatus();
}

void CopyRows(const GatherShape& g, const std::byte* x,
              const std::byte* indices, std::byte* y) {
  ParallelFor(g.threads, g.outer * g.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / g.count * g.cells + g.Index(indices, i % g.count);
      std::memcpy(y + i * g.inner_bytes, x + row * g.inner_bytes,
                  static_cast<size_t>(g.inner_bytes));
    }
  });
}

// Adds dy to the rows that the indices point to. Each thread owns a range of
// dx's rows and adds to it in the order of the indices, so the sum does not
// depend on the number of threads.
void AddRows(const GatherShape& g, const float* dy, const std::byte* indices,
             float* dx) {
  ParallelFor(g.threads, g.outer * g.cells, 1, [&](int64_t begin, int64_t end) {
    std::memset(dx + begin * g.inner, 0,
                static_cast<size_t>((end - begin) * g.inner_bytes));
    for (int64_t o = begin / g.cells; o < g.outer && o * g.cells < end; ++o) {
      for (int64_t i = 0; i < g.count; ++i) {
        const int64_t row = o * g.cells + g.Index(indices, i);
        if (row < begin || row >= end) continue;
        const float* from = dy + (o * g.count + i) * g.inner;
        float* to = dx + row * g.inner;
        for (int64_t k = 0; k < g.inner; ++k) to[k] += from[k];
      }
    }
  });
}

}  // namespace

KernelOr MakeGather(const CompileRequest& request, const CpuContext& context) {
  const Value& indices = InputOf(request, 1);
  if (indices.dtype != DType::kInt32 && indices.dtype != DType::kInt64) {
    return nullptr;
  }
  const Value& x = InputOf(request, 0);
  if (request.node.op == Op::kGather) {
    GatherShape g = ShapeOf(x.shape, request.node.get<AxisAttributes>().axis,
                            indices, x.dtype);
    g.threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
    return MakeKernel([g](const KernelArguments& at) {
      absl::Status status = CheckIndices(g, at.in<std::byte>(1));
      // An index outside was refused above. CopyRows does not check.
      if (!status.ok()) return status;
      CopyRows(g, at.in<std::byte>(0), at.in<std::byte>(1),
               at.out<std::byte>(0));
      return absl::OkStatus();
    });
  }
  if (x.dtype != DType::kFloat32) return nullptr;
  const auto& gather = request.node.get<GatherGradAttributes>();
  GatherShape g = ShapeOf(gather.input, gather.axis, indices, x.dtype);
  g.threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
  return MakeKernel([g](const KernelArguments& at) {
    absl::Status status = CheckIndices(g, at.in<std::byte>(1));
    if (!status.ok()) return status;
    AddRows(g, at.in(0), at.in<std::byte>(1), at.out(0));
    return absl::OkStatus();
  });
}

}  // namespace gpupool::engine
