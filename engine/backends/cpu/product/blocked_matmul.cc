// Products with blocked codes. One or two rows multiply the codes as they are,
// since reading the weights takes the time. For more rows a panel of weights at
// a time is unpacked into the cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/product/blocked_matmul.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <algorithm>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"
#include "engine/base/align.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_BLOCKED_MATMUL_CC_
#define GPUPOOL_ENGINE_BACKENDS_CPU_BLOCKED_MATMUL_CC_
namespace gpupool::engine {

// y [rows, columns] = a [rows, inner] W^T.
struct BlockedPlan {
  int64_t rows = 0, inner = 0, columns = 0;
  int64_t blocks = 0;       // of a column
  int64_t block_bytes = 0;  // of a block's codes
  int64_t zero_bytes = 0;   // of a column's packed zeros; 0: they are numbers
  int bits = 4;
  bool with_zeros = false;

  int64_t cells() const { return inner / blocks; }
};

// Addresses of the operands. With 4 bits, each row of `a` has its numbers at
// even places first, so that they meet the low halves of bytes in order.
struct BlockedOperands {
  const float* a = nullptr;
  const float* sums = nullptr;  // of a, for each row and block
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  const void* zeros = nullptr;
  float* y = nullptr;

  const uint8_t* CodesOf(const BlockedPlan& plan, int64_t column) const {
    return codes + column * plan.blocks * plan.block_bytes;
  }
  float ZeroOf(const BlockedPlan& plan, int64_t column, int64_t block) const {
    if (!plan.with_zeros) return plan.bits == 4 ? 8.0f : 128.0f;
    if (plan.zero_bytes == 0) {
      return static_cast<const float*>(zeros)[column * plan.blocks + block];
    }
    const uint8_t* own =
        static_cast<const uint8_t*>(zeros) + column * plan.zero_bytes;
    if (plan.bits == 8) return own[block];
    return static_cast<float>(own[block / 2] >> (4 * (block % 2)) & 15);
  }
};

// Columns of an unpacked panel.
inline constexpr int64_t kPanelColumns = 32;

// Some columns of the result, for all rows.
struct BlockedPart {
  const BlockedPlan& plan;
  const BlockedOperands& at;
  int64_t begin, end;  // columns
  float* panel;        // scratch of kPanelColumns * inner numbers
};

using BlockedFunction = void (*)(const BlockedPart&);

// Functions for one target.
struct BlockedFunctions {
  BlockedFunction few;   // reads the sums, but no panel
  BlockedFunction many;  // the reverse
};

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_BLOCKED_MATMUL_CC_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Loads bytes as whole numbers, one for each lane of floats.
template <class D>
HWY_INLINE auto LoadBytes(D, const uint8_t* from) {
  const hn::Rebind<uint8_t, D> bytes;
  return hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(bytes, from));
}

// Returns the codes in the low or high halves of bytes as numbers.
template <class D, class Bytes>
HWY_INLINE hn::Vec<D> LowHalves(D d, Bytes bytes) {
  const hn::RebindToSigned<D> whole;
  return hn::ConvertTo(d, hn::And(bytes, hn::Set(whole, 15)));
}
template <class D, class Bytes>
HWY_INLINE hn::Vec<D> HighHalves(D d, Bytes bytes) {
  return hn::ConvertTo(d, hn::ShiftRight<4>(bytes));
}

// A tile of the result. Rows and columns beyond the last one repeat it.
struct Tile {
  int64_t row, column;
};

// The sum over a block of (code - zero) * scale * a is
//   scale * (the sum of code * a) - scale * zero * (the sum of a).
template <int kBits, int kRows, int kColumns, class D>
HWY_INLINE void MultiplyTile(D d, const BlockedPlan& plan,
                             const BlockedOperands& at, const Tile& tile) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a[kRows];
  const float* sums[kRows];
  int64_t column[kColumns];
  const uint8_t* codes[kColumns];
  hn::Vec<D> total[kRows][kColumns];
  float correction[kRows][kColumns] = {};
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = std::min(tile.row + r, plan.rows - 1);
    a[r] = at.a + row * plan.inner;
    sums[r] = at.sums + row * plan.blocks;
  }
  for (int c = 0; c < kColumns; ++c) {
    column[c] = std::min(tile.column + c, plan.columns - 1);
    codes[c] = at.CodesOf(plan, column[c]);
    for (int r = 0; r < kRows; ++r) total[r][c] = hn::Zero(d);
  }
  const int64_t half = plan.inner / 2;
  for (int64_t block = 0; block < plan.blocks; ++block) {
    hn::Vec<D> part[kRows][kColumns];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) part[r][c] = hn::Zero(d);
    }
    const int64_t begin = block * plan.block_bytes;
    for (int64_t i = begin; i < begin + plan.block_bytes; i += lanes) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        const auto bytes = LoadBytes(d, codes[c] + i);
        const hn::Vec<D> low =
            kBits == 4 ? LowHalves(d, bytes) : hn::ConvertTo(d, bytes);
        const hn::Vec<D> high = HighHalves(d, bytes);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          part[r][c] = hn::MulAdd(low, hn::LoadU(d, a[r] + i), part[r][c]);
          if (kBits == 4) {
            part[r][c] =
                hn::MulAdd(high, hn::LoadU(d, a[r] + half + i), part[r][c]);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const float scale = at.scales[column[c] * plan.blocks + block];
      const float shift = scale * at.ZeroOf(plan, column[c], block);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        total[r][c] = hn::MulAdd(hn::Set(d, scale), part[r][c], total[r][c]);
        correction[r][c] += shift * sums[r][block];
      }
    }
  }
  for (int r = 0; r < kRows && tile.row + r < plan.rows; ++r) {
    for (int c = 0; c < kColumns && tile.column + c < plan.columns; ++c) {
      at.y[(tile.row + r) * plan.columns + tile.column + c] =
          hn::GetLane(hn::SumOfLanes(d, total[r][c])) - correction[r][c];
    }
  }
}

template <int kBits, int kLanes>
void FewRows(const BlockedPart& part) {
  const hn::CappedTag<float, kLanes> d;
  if (part.plan.rows == 1) {
    for (int64_t c = part.begin; c < part.end; c += 4) {
      MultiplyTile<kBits, 1, 4>(d, part.plan, part.at, {0, c});
    }
    return;
  }
  for (int64_t c = part.begin; c < part.end; c += 2) {
    for (int64_t r = 0; r < part.plan.rows; r += 2) {
      MultiplyTile<kBits, 2, 2>(d, part.plan, part.at, {r, c});
    }
  }
}

// Writes the columns of W to the panel, in the order of `a`.
template <int kBits, class D>
HWY_INLINE void Unpack(D d, const BlockedPart& part) {
  const BlockedPlan& plan = part.plan;
  const BlockedOperands& at = part.at;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* w = part.panel;
  for (int64_t column = part.begin; column < part.end; ++column) {
    const uint8_t* codes = at.CodesOf(plan, column);
    for (int64_t block = 0; block < plan.blocks; ++block) {
      const auto scale = hn::Set(d, at.scales[column * plan.blocks + block]);
      const auto zero = hn::Set(d, at.ZeroOf(plan, column, block));
      const int64_t first = block * plan.block_bytes;
      for (int64_t i = first; i < first + plan.block_bytes; i += lanes) {
        const auto bytes = LoadBytes(d, codes + i);
        const hn::Vec<D> low =
            kBits == 4 ? LowHalves(d, bytes) : hn::ConvertTo(d, bytes);
        hn::StoreU(hn::Mul(hn::Sub(low, zero), scale), d, w + i);
        if (kBits == 4) {
          hn::StoreU(hn::Mul(hn::Sub(HighHalves(d, bytes), zero), scale), d,
                     w + plan.inner / 2 + i);
        }
      }
    }
    w += plan.inner;
  }
}

constexpr int kPanelTileColumns = 4;

// Multiplies kRows rows and kPanelTileColumns columns of the panel. Rows and
// columns beyond the last one repeat it.
template <int kRows, class D>
HWY_INLINE void MultiplyUnpacked(D d, const BlockedPart& part,
                                 const Tile& tile) {
  constexpr int kColumns = kPanelTileColumns;
  const BlockedPlan& plan = part.plan;
  const BlockedOperands& at = part.at;
  const int64_t columns = part.end - tile.column;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a[kRows];
  const float* w[kColumns];
  hn::Vec<D> sum[kRows][kColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    a[r] = at.a + std::min(tile.row + r, plan.rows - 1) * plan.inner;
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(d);
  }
  for (int64_t c = 0; c < kColumns; ++c) {
    w[c] = part.panel +
           (tile.column - part.begin + std::min(c, columns - 1)) * plan.inner;
  }
  for (int64_t k = 0; k < plan.inner; k += lanes) {
    hn::Vec<D> weight[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) weight[c] = hn::LoadU(d, w[c] + k);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const hn::Vec<D> number = hn::LoadU(d, a[r] + k);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        sum[r][c] = hn::MulAdd(number, weight[c], sum[r][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      if (tile.row + r >= plan.rows || c >= columns) continue;
      at.y[(tile.row + r) * plan.columns + tile.column + c] =
          hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
    }
  }
}

template <class D>
HWY_INLINE void MultiplyPanel(D d, const BlockedPart& part) {
  // The sums fill the registers beside the operands.
  constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 6 : 2;
  for (int64_t r = 0; r < part.plan.rows; r += kRows) {
    for (int64_t c = part.begin; c < part.end; c += kPanelTileColumns) {
      MultiplyUnpacked<kRows>(d, part, {r, c});
    }
  }
}

template <int kBits, int kLanes>
void ManyRows(const BlockedPart& part) {
  const hn::CappedTag<float, kLanes> d;
  for (int64_t c = part.begin; c < part.end; c += kPanelColumns) {
    const BlockedPart panel{part.plan, part.at, c,
                            std::min(part.end, c + kPanelColumns), part.panel};
    Unpack<kBits>(d, panel);
    MultiplyPanel(d, panel);
  }
}

// Returns the functions whose vectors divide a block's bytes, of which there
// are at least 8.
BlockedFunctions FindFunctions(int bits, int64_t block_bytes) {
  if (block_bytes % 16 == 0) {
    return bits == 4 ? BlockedFunctions{FewRows<4, 16>, ManyRows<4, 16>}
                     : BlockedFunctions{FewRows<8, 16>, ManyRows<8, 16>};
  }
  return bits == 4 ? BlockedFunctions{FewRows<4, 8>, ManyRows<4, 8>}
                   : BlockedFunctions{FewRows<8, 8>, ManyRows<8, 8>};
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(FindFunctions);

// Most rows that multiply the codes as they are.
constexpr int64_t kFewRows = 2;

struct BlockedKernel {
  BlockedPlan plan;
  BlockedFunctions functions;
  int threads;

  bool few() const { return plan.rows <= kFewRows; }
  // The workspace has the rows of `a`, then their sums or a panel for each
  // thread.
  uint64_t row_bytes() const { return FloatBytes(plan.rows * plan.inner); }
  uint64_t workspace_bytes() const {
    return row_bytes() + FloatBytes(few() ? plan.rows * plan.blocks
                                          : threads * panel_numbers());
  }
  int64_t panel_numbers() const { return kPanelColumns * plan.inner; }
  static uint64_t FloatBytes(int64_t count) {
    return AlignUp(static_cast<uint64_t>(count) * sizeof(float));
  }

  // Writes a row of a in the order of the codes.
  void ArrangeRow(const float* from, float* to) const;
  void SumBlocks(const float* row, float* sums) const;
  void Run(const KernelArguments& arguments) const;
};

void BlockedKernel::ArrangeRow(const float* from, float* to) const {
  if (plan.bits == 8) {
    std::copy(from, from + plan.inner, to);
    return;
  }
  const int64_t half = plan.inner / 2;
  for (int64_t i = 0; i < half; ++i) {
    to[i] = from[2 * i];
    to[half + i] = from[2 * i + 1];
  }
}

void BlockedKernel::SumBlocks(const float* row, float* sums) const {
  for (int64_t block = 0; block < plan.blocks; ++block) {
    sums[block] = 0;
    for (int64_t i = 0; i < plan.cells(); ++i) sums[block] += *row++;
  }
}

void BlockedKernel::Run(const KernelArguments& arguments) const {
  const float* a = arguments.in(0);
  auto* rows = arguments.workspace();
  auto* rest = rows + row_bytes() / sizeof(float);
  BlockedOperands at{.a = rows,
                     .sums = rest,
                     .codes = arguments.in<uint8_t>(1),
                     .scales = arguments.in(2),
                     .y = arguments.out(0)};
  if (plan.with_zeros) at.zeros = arguments.in<void>(3);
  ParallelFor(few() ? 1 : threads, plan.rows, 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  ArrangeRow(a + row * plan.inner, rows + row * plan.inner);
                }
              });
  for (int64_t row = 0; few() && row < plan.rows; ++row) {
    SumBlocks(a + row * plan.inner, rest + row * plan.blocks);
  }
  const BlockedFunction multiply = few() ? functions.few : functions.many;
  ParallelParts(
      threads, plan.columns, few() ? 4 : kPanelColumns,
      [&](int part, int64_t begin, int64_t end) {
        multiply({plan, at, begin, end, rest + part * panel_numbers()});
      });
}

}  // namespace

KernelOr MakeBlockedMatMul(const CompileRequest& request,
                           const CpuContext& context) {
  const auto& matmul = request.node.get<BlockedMatMulAttributes>();
  const Shape& a = InputOf(request, 0).shape;
  const Shape& codes = InputOf(request, 1).shape;
  BlockedKernel kernel;
  kernel.plan = {.rows = a[0],
                 .inner = a[1],
                 .columns = codes[0],
                 .blocks = codes[1],
                 .block_bytes = codes[2],
                 .bits = matmul.bits,
                 .with_zeros = matmul.with_zeros};
  if (codes[2] % 8 != 0) return nullptr;
  if (matmul.with_zeros && InputOf(request, 3).dtype == DType::kUint8) {
    kernel.plan.zero_bytes = InputOf(request, 3).shape[1];
  }
  kernel.functions = HWY_DYNAMIC_DISPATCH(FindFunctions)(matmul.bits, codes[2]);
  // Decoding takes about as long as four rows.
  kernel.threads = context.ThreadsForFlops(
      2 * static_cast<uint64_t>((a[0] + 4) * a[1] * codes[0]));
  return MakeKernel([kernel](const KernelArguments& at) { kernel.Run(at); },
                    kernel.workspace_bytes());
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
