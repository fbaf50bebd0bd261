// Ops that move elements of any type: transpose, slice, pad, concat, broadcast,
// and the gradients of slice and pad. Each is a list of strided copies, some
// after a fill.
#include <cstring>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"
#include "engine/backends/movement_copies.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// Cells along each side of a transposition's blocks: a cache line of 4-byte
// elements.
constexpr int64_t kBlock = 16;

// Two loops of a copy: `rows` times `columns` elements.
struct Plane {
  int64_t rows = 1, columns = 1;
  int64_t from_row = 0, from_column = 0;
  int64_t to_row = 0, to_column = 0;
};

template <typename T>
void CopyCells(const T* from, T* to, const Plane& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* source = from + r * p.from_row;
    T* target = to + r * p.to_row;
    for (int64_t c = 0; c < p.columns; ++c) {
      target[c * p.to_column] = source[c * p.from_column];
    }
  }
}

// Transposes a full block. Reads each line once and writes each line once:
// lines that are a power of two apart would evict each other from the cache.
template <typename T>
void TransposeBlock(const T* from, T* to, const Plane& p) {
  T lines[kBlock][kBlock];
  for (int64_t c = 0; c < kBlock; ++c) {
    std::memcpy(lines[c], from + c * p.from_column, sizeof(lines[c]));
  }
  for (int64_t r = 0; r < kBlock; ++r) {
    T line[kBlock];
    for (int64_t c = 0; c < kBlock; ++c) line[c] = lines[c][r];
    std::memcpy(to + r * p.to_row, line, sizeof(line));
  }
}

template <typename T>
void TransposePlane(const T* from, T* to, const Plane& p) {
  for (int64_t r = 0; r < p.rows; r += kBlock) {
    for (int64_t c = 0; c < p.columns; c += kBlock) {
      const T* source = from + r + c * p.from_column;
      T* target = to + r * p.to_row + c;
      Plane block = p;
      block.rows = std::min(kBlock, p.rows - r);
      block.columns = std::min(kBlock, p.columns - c);
      if (block.rows == kBlock && block.columns == kBlock) {
        TransposeBlock(source, target, block);
      } else {
        CopyCells(source, target, block);
      }
    }
  }
}

template <typename T>
void CopyPlane(const std::byte* from_bytes, std::byte* to_bytes,
               const Plane& p) {
  const T* from = reinterpret_cast<const T*>(from_bytes);
  T* to = reinterpret_cast<T*>(to_bytes);
  if (p.to_column == 1 && p.from_column == 1) {
    const size_t bytes = static_cast<size_t>(p.columns) * sizeof(T);
    for (int64_t r = 0; r < p.rows; ++r) {
      std::memcpy(to + r * p.to_row, from + r * p.from_row, bytes);
    }
    return;
  }
  if (p.to_column == 1 && p.from_column == 0) {
    for (int64_t r = 0; r < p.rows; ++r) {
      T* target = to + r * p.to_row;
      std::fill(target, target + p.columns, from[r * p.from_row]);
    }
    return;
  }
  // The source is contiguous along rows, the target along columns.
  if (p.to_column == 1 && p.from_row == 1) return TransposePlane(from, to, p);
  CopyCells(from, to, p);
}

using PlaneFunction = void (*)(const std::byte*, std::byte*, const Plane&);

PlaneFunction PlaneFunctionOf(uint64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return CopyPlane<uint8_t>;
    case 2:
      return CopyPlane<uint16_t>;
    case 4:
      return CopyPlane<uint32_t>;
    default:
      return CopyPlane<uint64_t>;
  }
}

// A copy as a plane inside outer loops. The plane is cut into pieces for
// threads.
struct PreparedCopy {
  size_t input;
  int64_t from, to;
  LoopNest outer;
  Plane plane;
  int64_t pieces;  // along the plane's rows
};

// Removes loop `at` from the nest.
void Remove(LoopNest& loops, size_t at) {
  const auto offset = static_cast<std::ptrdiff_t>(at);
  loops.sizes.erase(loops.sizes.begin() + offset);
  for (auto& strides : loops.strides) strides.erase(strides.begin() + offset);
}

// Returns the loop that forms a plane with the innermost one. In a
// transposition it is the loop along which the source is contiguous.
size_t RowLoop(const LoopNest& loops) {
  for (size_t i = 0; i < loops.sizes.size(); ++i) {
    if (loops.strides[0][i] == 1) return i;
  }
  return loops.sizes.size() - 1;
}

PreparedCopy Prepare(StridedCopy copy, int threads) {
  PreparedCopy prepared{copy.input, copy.from, copy.to, {}, {}, 1};
  LoopNest& loops = copy.loops;
  loops.Collapse();
  Plane& plane = prepared.plane;
  if (!loops.sizes.empty()) {
    plane.columns = loops.sizes.back();
    plane.from_column = loops.strides[0].back();
    plane.to_column = loops.strides[1].back();
    Remove(loops, loops.sizes.size() - 1);
  } else {
    plane.from_column = plane.to_column = 1;
  }
  if (!loops.sizes.empty()) {
    const size_t row = RowLoop(loops);
    plane.rows = loops.sizes[row];
    plane.from_row = loops.strides[0][row];
    plane.to_row = loops.strides[1][row];
    Remove(loops, row);
  }
  const int64_t outer = loops.count();
  // Without enough outer iterations for all threads, the plane is cut as well.
  if (outer < threads) prepared.pieces = std::min<int64_t>(threads, plane.rows);
  prepared.outer = std::move(loops);
  return prepared;
}

class CopyProgram {
 public:
  CopyProgram(const CompileRequest& request, const CpuContext& context)
      : element_bytes_(SizeOf(OutputOf(request, 0).dtype)),
        output_bytes_(OutputOf(request, 0).bytes()),
        threads_(context.ThreadsForBytes(OutputOf(request, 0).bytes())),
        plane_function_(PlaneFunctionOf(element_bytes_)) {}

  // Fills the output with the number before the copies.
  void Fill(DType dtype, double number) {
    fill_.resize(element_bytes_);
    WriteFromDoubles(dtype, {number}, 1, fill_.data());
  }
  void Add(StridedCopy copy) {
    if (copy.loops.count() == 0) return;
    copies_.push_back(Prepare(std::move(copy), threads_));
  }

  void Run(const KernelArguments& at) const {
    if (!fill_.empty()) FillOutput(at.out<std::byte>(0));
    for (const PreparedCopy& copy : copies_) RunCopy(copy, at);
  }

 private:
  void FillOutput(std::byte* to) const;
  void RunCopy(const PreparedCopy& copy, const KernelArguments& at) const;

  uint64_t element_bytes_;
  uint64_t output_bytes_;
  int threads_;
  PlaneFunction plane_function_;
  std::vector<std::byte> fill_;
  std::vector<PreparedCopy> copies_;
};

void CopyProgram::FillOutput(std::byte* to) const {
  const auto zero = [](std::byte b) { return b == std::byte{0}; };
  if (std::all_of(fill_.begin(), fill_.end(), zero)) {
    std::memset(to, 0, output_bytes_);
    return;
  }
  const auto elements = static_cast<int64_t>(output_bytes_ / element_bytes_);
  plane_function_(fill_.data(), to, {1, elements, 0, 0, 0, 1});
}

void CopyProgram::RunCopy(const PreparedCopy& copy,
                          const KernelArguments& at) const {
  const std::byte* from = at.in<std::byte>(copy.input);
  std::byte* to = at.out<std::byte>(0);
  const int64_t items = copy.outer.count() * copy.pieces;
  const auto bytes = static_cast<int64_t>(element_bytes_);
  ParallelFor(threads_, items, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i / copy.pieces;
      int64_t source = copy.from, target = copy.to;
      for (size_t loop = copy.outer.sizes.size(); loop > 0; --loop) {
        const int64_t at_loop = rest % copy.outer.sizes[loop - 1];
        rest /= copy.outer.sizes[loop - 1];
        source += at_loop * copy.outer.strides[0][loop - 1];
        target += at_loop * copy.outer.strides[1][loop - 1];
      }
      const int64_t piece = i % copy.pieces;
      const int64_t first = copy.plane.rows * piece / copy.pieces;
      Plane plane = copy.plane;
      plane.rows = copy.plane.rows * (piece + 1) / copy.pieces - first;
      source += first * plane.from_row;
      target += first * plane.to_row;
      plane_function_(from + source * bytes, to + target * bytes, plane);
    }
  });
}

}  // namespace

KernelOr MakeMovement(const CompileRequest& request,
                      const CpuContext& context) {
  auto movement = CopiesOf(request.graph, request.node);
  if (!movement.has_value()) return nullptr;
  CopyProgram program(request, context);
  if (movement->fill.has_value()) {
    program.Fill(OutputOf(request, 0).dtype, *movement->fill);
  }
  for (StridedCopy& copy : movement->copies) program.Add(std::move(copy));
  return MakeKernel([program = std::move(program)](const KernelArguments& at) {
    program.Run(at);
  });
}

}  // namespace gpupool::engine
