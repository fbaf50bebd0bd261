// Products over the last two axes with broadcast batches. Each batch is a small
// product on one thread. If there are fewer batches than threads, each is cut
// into bands of rows.
#include <algorithm>
#include <vector>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/product/small_gemm.h"
#include "engine/backends/function_kernel.h"
#include "engine/graph/broadcast.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kRowGrain = 16;

Shape BatchesOf(const Shape& shape) {
  return *Shape::CreateMaybeEmpty(shape.dims().first(shape.dims().size() - 2));
}

// The offset in elements of each batch's matrix. It is computed when asked for:
// a file can have more batches than the host has memory for their offsets.
class BatchOffsets {
 public:
  BatchOffsets(const Shape& from, const Shape& y)
      : batches_(BatchesOf(y)),
        strides_(BroadcastStrides(BatchesOf(from), batches_)),
        matrix_(from[from.rank() - 2] * from[from.rank() - 1]) {}

  int64_t count() const { return batches_.elements(); }
  int64_t of(int64_t batch) const {
    int64_t offset = 0;
    for (int axis = batches_.rank() - 1; axis >= 0; --axis) {
      const int64_t size = batches_[axis];
      offset += batch % size * strides_[static_cast<size_t>(axis)];
      batch /= size;
    }
    return offset * matrix_;
  }

 private:
  Shape batches_;
  std::vector<int64_t> strides_;
  int64_t matrix_;
};

}  // namespace

KernelOr MakeBatchMatMul(const CompileRequest& request,
                         const CpuContext& context) {
  const Value& a = InputOf(request, 0);
  const Value& b = InputOf(request, 1);
  const Value& y = OutputOf(request, 0);
  if (y.dtype != DType::kFloat32 || a.shape.elements() == 0) return nullptr;
  const auto& attributes = request.node.get<BatchMatMulAttributes>();
  const int rank = y.shape.rank();
  Gemm gemm{attributes.transpose_a, attributes.transpose_b};
  gemm.m = y.shape[rank - 2];
  gemm.n = y.shape[rank - 1];
  gemm.lda = a.shape[a.shape.rank() - 1];
  gemm.ldb = b.shape[b.shape.rank() - 1];
  gemm.ldc = gemm.n;
  gemm.k = gemm.transpose_a ? a.shape[a.shape.rank() - 2] : gemm.lda;
  gemm.alpha = static_cast<float>(attributes.scale);
  const BatchOffsets a_offsets(a.shape, y.shape);
  const BatchOffsets b_offsets(b.shape, y.shape);
  const int threads =
      context.ThreadsForFlops(NodeFlops(request.graph, request.node));
  const int64_t batches = a_offsets.count();
  const int64_t most = (gemm.m + kRowGrain - 1) / kRowGrain;
  const int64_t bands =
      batches >= threads ? 1 : std::min<int64_t>(threads, most);
  return MakeKernel([=](const KernelArguments& at) {
    UseOneThreadForGemm();
    ParallelFor(threads, batches * bands, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / bands;
        const int64_t first = gemm.m * (i % bands) / bands;
        Gemm band = gemm;
        band.m = gemm.m * (i % bands + 1) / bands - first;
        // Rows of the result are columns of a transposed operand.
        const int64_t skip = gemm.transpose_a ? first : first * gemm.lda;
        band.Run(at.in(0) + a_offsets.of(batch) + skip,
                 at.in(1) + b_offsets.of(batch),
                 at.out(0) + (i / bands * gemm.m + first) * gemm.n);
      }
    });
  });
}

}  // namespace gpupool::engine
