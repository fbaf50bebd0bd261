// Gather along an axis, and its gradient.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/axis_run.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "engine/base/status_macros.h"

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

GatherShape ShapeOf(const AxisRun& run, const Value& indices, DType dtype) {
  GatherShape g;
  g.outer = run.before;
  g.cells = run.cells;
  g.inner = run.after;
  g.count = indices.shape.elements();
  g.inner_bytes = g.inner * static_cast<int64_t>(SizeOf(dtype));
  g.wide = indices.dtype == DType::kInt64;
  return g;
}

absl::Status IndexOutside(const GatherShape& g, int64_t index, int64_t i) {
  return absl::InvalidArgumentError(
      absl::StrCat("index ", index, " at position ", i, " is not in ", -g.cells,
                   " .. ", g.cells - 1));
}

absl::Status CheckIndices(const GatherShape& g, const std::byte* indices) {
  for (int64_t i = 0; i < g.count; ++i) {
    if (g.Index(indices, i) < g.cells) continue;
    return IndexOutside(
        g,
        g.wide ? reinterpret_cast<const int64_t*>(indices)[i]
               : int64_t{reinterpret_cast<const int32_t*>(indices)[i]},
        i);
  }
  return absl::OkStatus();
}

// Writes the indices counted from 0.
template <typename Index>
absl::Status ResolveIndices(const GatherShape& g, const Index* indices,
                            int64_t* places) {
  for (int64_t i = 0; i < g.count; ++i) {
    const int64_t index = indices[i];
    places[i] = index < 0 ? index + g.cells : index;
    if (places[i] < 0 || index >= g.cells) return IndexOutside(g, index, i);
  }
  return absl::OkStatus();
}

// Copies rows of one element of type T each, such as channels of a
// channels-last image. All cells of an image use the same indices, so these are
// counted from 0 once, in the workspace.
template <typename T>
absl::Status CopyElements(const GatherShape& g, const KernelArguments& at) {
  auto* places = at.workspace<int64_t>();
  RETURN_IF_ERROR(g.wide ? ResolveIndices(g, at.in<int64_t>(1), places)
                         : ResolveIndices(g, at.in<int32_t>(1), places));
  ParallelFor(g.threads, g.outer, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* source = at.in<T>(0) + row * g.cells;
      T* target = at.out<T>(0) + row * g.count;
      for (int64_t i = 0; i < g.count; ++i) target[i] = source[places[i]];
    }
  });
  return absl::OkStatus();
}

absl::Status CopyRows(const GatherShape& g, const KernelArguments& at) {
  // The copies do not check again.
  RETURN_IF_ERROR(CheckIndices(g, at.in<std::byte>(1)));
  const auto* x = at.in<std::byte>(0);
  const auto* indices = at.in<std::byte>(1);
  auto* y = at.out<std::byte>(0);
  ParallelFor(g.threads, g.outer * g.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / g.count * g.cells + g.Index(indices, i % g.count);
      std::memcpy(y + i * g.inner_bytes, x + row * g.inner_bytes,
                  static_cast<size_t>(g.inner_bytes));
    }
  });
  return absl::OkStatus();
}

using Copy = absl::Status (*)(const GatherShape&, const KernelArguments&);

Copy CopyOf(const GatherShape& g) {
  if (g.outer < g.threads) return CopyRows;
  if (g.inner_bytes == 4) return CopyElements<uint32_t>;
  if (g.inner_bytes == 2) return CopyElements<uint16_t>;
  return CopyRows;
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
    const int axis = request.node.get<AxisAttributes>().axis;
    GatherShape g = ShapeOf(AxisRun(x.shape, x.layout, axis), indices, x.dtype);
    g.threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
    const Copy copy = CopyOf(g);
    const int64_t places = copy == CopyRows ? 0 : g.count;
    const auto run = [g, copy](const KernelArguments& at) {
      return copy(g, at);
    };
    return MakeKernel(run, static_cast<uint64_t>(places) * sizeof(int64_t));
  }
  if (x.dtype != DType::kFloat32) return nullptr;
  const auto& gather = request.node.get<GatherGradAttributes>();
  GatherShape g = ShapeOf(AxisRun(gather.input, Layout::kRowMajor, gather.axis),
                          indices, x.dtype);
  g.threads = context.ThreadsForBytes(OutputOf(request, 0).bytes());
  return MakeKernel([g](const KernelArguments& at) {
    absl::Status status = CheckIndices(g, at.in<std::byte>(1));
    if (!status.ok()) return status;
    AddRows(g, at.in(0), at.in<std::byte>(1), at.out(0));
    return absl::OkStatus();
  });
}

}  // namespace gpupool::engine
