// Functors of the ops that move elements of any type. (Host and device; plain
// C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// 16 bytes that one instruction moves.
struct alignas(16) Word16 {
  uint64_t halves[2];
};

// Copies with strides. Operand 0 of the walk is the source, operand 1 the
// target.
template <typename Word>
struct CopyFunctor {
  const Word* from = nullptr;
  Word* to = nullptr;
  Walk<2> walk;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t at[2];
    walk.Find(i, at);
    to[at[1]] = from[at[0]];
  }
};

template <typename Word, int kSide>
struct alignas(sizeof(Word) * kSide) Line {
  Word words[kSide];
};

// Transposes blocks of kSide x kSide. Lines of the source, `from_line` apart,
// become columns of lines of the target, `to_line` apart.
template <typename Word, int kSide>
struct TransposeFunctor {
  const Word* from = nullptr;
  Word* to = nullptr;
  int64_t from_line = 0;
  int64_t to_line = 0;
  Walk<2> walk;  // over blocks

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using L = Line<Word, kSide>;
    int64_t at[2];
    walk.Find(i, at);
    L lines[kSide];
    for (int c = 0; c < kSide; ++c) {
      lines[c] = *reinterpret_cast<const L*>(from + at[0] + c * from_line);
    }
    for (int r = 0; r < kSide; ++r) {
      L line;
      for (int c = 0; c < kSide; ++c) line.words[c] = lines[c].words[r];
      *reinterpret_cast<L*>(to + at[1] + r * to_line) = line;
    }
  }
};

template <typename Word>
struct FillFunctor {
  Word* to = nullptr;
  Word word;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const { to[i] = word; }
};

// Copies one element of `bytes` bytes.
GPUPOOL_HOST_DEVICE inline void CopyElement(int32_t bytes, const void* from,
                                            int64_t source, void* to,
                                            int64_t target) {
  switch (bytes) {
    case 1:
      static_cast<uint8_t*>(to)[target] = *At<uint8_t>(from, source);
      return;
    case 2:
      static_cast<uint16_t*>(to)[target] = *At<uint16_t>(from, source);
      return;
    case 4:
      static_cast<uint32_t*>(to)[target] = *At<uint32_t>(from, source);
      return;
    default:
      static_cast<uint64_t*>(to)[target] = *At<uint64_t>(from, source);
  }
}

// Pads by repeating the edge or reflecting at it. Call i writes element i of
// the result in the order of memory. Axes are in this order too.
struct PadFunctor {
  const void* from = nullptr;
  void* to = nullptr;
  int32_t element_bytes = 4;
  bool reflect = false;
  Grid grid;  // of the result
  int64_t before[kMaxLoops];
  int64_t cells[kMaxLoops];    // of the source
  int64_t strides[kMaxLoops];  // of the source

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t position[kMaxLoops];
    grid.Split(i, position);
    int64_t source = 0;
    for (int axis = 0; axis < grid.axes; ++axis) {
      const int64_t last = cells[axis] - 1;
      int64_t at = position[axis] - before[axis];
      if (reflect && at < 0) at = -at;
      if (reflect && at > last) at = 2 * last - at;
      at = at < 0 ? 0 : (at > last ? last : at);
      source += at * strides[axis];
    }
    CopyElement(element_bytes, from, source, to, i);
  }
};

// Computes the gradient of PadFunctor. Call i writes element i of dx in the
// order of memory: the sum of the elements of dy that are its copies.
struct PadGradFunctor {
  const void* dy = nullptr;
  void* dx = nullptr;
  DType type = DType::kFloat32;
  bool reflect = false;
  Grid grid;  // of dx
  int64_t before[kMaxLoops];
  int64_t after[kMaxLoops];
  int64_t strides[kMaxLoops];  // of dy

  // Returns the number of copies of coordinate p along an axis.
  GPUPOOL_HOST_DEVICE int64_t Copies(int axis, int64_t p) const {
    const int64_t last = grid.sizes[axis] - 1;
    if (reflect) {
      return 1 + (p > 0 && p <= before[axis] ? 1 : 0) +
             (p < last && last - p <= after[axis] ? 1 : 0);
    }
    return 1 + (p == 0 ? before[axis] : 0) + (p == last ? after[axis] : 0);
  }
  // Returns the coordinate of the k-th copy.
  GPUPOOL_HOST_DEVICE int64_t CopyAt(int axis, int64_t p, int64_t k) const {
    if (!reflect) return (p == 0 ? 0 : before[axis] + p) + k;
    if (k == 0) return before[axis] + p;
    if (k == 1 && p > 0 && p <= before[axis]) return before[axis] - p;
    return before[axis] + 2 * (grid.sizes[axis] - 1) - p;
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    int64_t position[kMaxLoops];
    grid.Split(i, position);
    int64_t copies = 1;
    for (int axis = 0; axis < grid.axes; ++axis) {
      copies *= Copies(axis, position[axis]);
    }
    double sum = 0;
    for (int64_t copy = 0; copy < copies; ++copy) {
      int64_t rest = copy;
      int64_t at = 0;
      for (int axis = grid.axes - 1; axis >= 0; --axis) {
        const int64_t here = Copies(axis, position[axis]);
        at += CopyAt(axis, position[axis], rest % here) * strides[axis];
        rest /= here;
      }
      sum += LoadDouble(type, dy, at);
    }
    StoreDouble(type, dx, i, sum);
  }
};

}  // namespace gpupool::engine::portable

// Calls FOR with every functor of LaunchFor; none is one of LaunchRows.
#define GPUPOOL_MOVEMENT_FUNCTORS(FOR, ROWS) \
  FOR(CopyFunctor<uint8_t>)                  \
  FOR(CopyFunctor<uint16_t>)                 \
  FOR(CopyFunctor<uint32_t>)                 \
  FOR(CopyFunctor<uint64_t>)                 \
  FOR(CopyFunctor<Word16>)                   \
  FOR(TransposeFunctor<uint8_t, 8>)          \
  FOR(TransposeFunctor<uint16_t, 8>)         \
  FOR(TransposeFunctor<uint32_t, 4>)         \
  FOR(TransposeFunctor<uint64_t, 2>)         \
  FOR(FillFunctor<uint8_t>)                  \
  FOR(FillFunctor<uint16_t>)                 \
  FOR(FillFunctor<uint32_t>)                 \
  FOR(FillFunctor<uint64_t>)                 \
  FOR(FillFunctor<Word16>)                   \
  FOR(PadFunctor)                            \
  FOR(PadGradFunctor)
