// Functors of attention and its gradient, one row per group, of the product
// family. (Host and device; plain C++.)
//
// Scores of a row lie in scratch memory, so a launch takes as many rows as fit
// there: group `row` works on row first_row + row. All operands are row-major
// and contiguous.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"

namespace gpupool::engine::portable {

template <typename T>
struct AttentionOperands {
  const T* q = nullptr;     // [batch * heads, queries, depth]
  const T* k = nullptr;     // [batch * heads, keys, depth]
  const T* v = nullptr;     // [batch * heads, keys, width]
  const T* mask = nullptr;  // null: none
  int64_t heads = 1;
  int64_t queries = 0, keys = 0;
  int64_t depth = 0, width = 0;
  int64_t mask_strides[4] = {0, 0, 0, 0};  // 0 where the mask repeats
  double scale = 1;
  bool causal = false;

  GPUPOOL_HOST_DEVICE bool Sees(int64_t query, int64_t key) const {
    return !causal || key <= query + keys - queries;
  }
  // Returns the mask's addend for the score of a query and a key.
  GPUPOOL_HOST_DEVICE Real_t<T> Mask(int64_t matrix, int64_t query,
                                     int64_t key) const {
    return Load(mask, matrix / heads * mask_strides[0] +
                          matrix % heads * mask_strides[1] +
                          query * mask_strides[2] + key * mask_strides[3]);
  }
  // Returns the score of a query and a key of matrix `matrix`. The query must
  // see the key.
  GPUPOOL_HOST_DEVICE Real_t<T> Score(int64_t matrix, int64_t query,
                                      int64_t key) const {
    using R = Real_t<T>;
    const T* left = q + (matrix * queries + query) * depth;
    const T* right = k + (matrix * keys + key) * depth;
    R product = 0;
    for (int64_t d = 0; d < depth; ++d) {
      product += Load(left, d) * Load(right, d);
    }
    R score = static_cast<R>(scale) * product;
    if (mask != nullptr) score += Mask(matrix, query, key);
    return score;
  }
};

// The result of a query and the logarithm of its sum of exponentials.
template <typename T>
struct AttentionFunctor {
  AttentionOperands<T> in;
  T* y = nullptr;
  Real_t<T>* lse = nullptr;      // null: not wanted
  Real_t<T>* scratch = nullptr;  // [rows of a launch, keys]
  int64_t first_row = 0;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const int64_t index = first_row + row;
    const int64_t matrix = index / in.queries;
    const int64_t query = index % in.queries;
    R* scores = scratch + row * in.keys;
    R mine = -R(HUGE_VAL);
    for (int64_t s = group.lane(); s < in.keys; s += group.lanes()) {
      const R score =
          in.Sees(query, s) ? in.Score(matrix, query, s) : -R(HUGE_VAL);
      scores[s] = score;
      if (score > mine) mine = score;
    }
    const R top = group.Max(mine);
    const bool blind = top == -R(HUGE_VAL);
    double sum = 0;
    for (int64_t s = group.lane(); s < in.keys && !blind; s += group.lanes()) {
      scores[s] = std::exp(scores[s] - top);
      sum += scores[s];
    }
    sum = group.Sum(sum);
    group.Meet();
    if (lse != nullptr && group.lane() == 0) {
      lse[index] = blind ? top : static_cast<R>(top + std::log(sum));
    }
    const T* values = in.v + matrix * in.keys * in.width;
    const auto share = static_cast<R>(1 / sum);
    for (int64_t e = group.lane(); e < in.width; e += group.lanes()) {
      R total = 0;
      for (int64_t s = 0; s < in.keys && !blind; ++s) {
        total += scores[s] * Load(values, s * in.width + e);
      }
      Store(y, index * in.width + e, blind ? R(0) : total * share);
    }
  }
};

// The common part of both gradients. With p the softmax, ds = scale * p * (dy
// v^T - sum(dy * y)).
template <typename T>
struct AttentionSlopes {
  AttentionOperands<T> in;
  const T* dy = nullptr;           // [batch * heads, queries, width]
  const T* y = nullptr;            // the same
  const Real_t<T>* lse = nullptr;  // [batch * heads, queries]

  struct Pair {
    Real_t<T> p = 0;
    Real_t<T> ds = 0;
  };

  // Returns sum(dy * y) of a query.
  GPUPOOL_HOST_DEVICE Real_t<T> Delta(int64_t index) const {
    Real_t<T> delta = 0;
    for (int64_t e = 0; e < in.width; ++e) {
      delta += Load(dy, index * in.width + e) * Load(y, index * in.width + e);
    }
    return delta;
  }
  GPUPOOL_HOST_DEVICE Pair Of(int64_t matrix, int64_t query, int64_t key,
                              Real_t<T> delta) const {
    using R = Real_t<T>;
    const int64_t index = matrix * in.queries + query;
    const R logarithm = lse[index];
    Pair pair;
    if (logarithm == -R(HUGE_VAL) || !in.Sees(query, key)) return pair;
    pair.p = std::exp(in.Score(matrix, query, key) - logarithm);
    const T* value = in.v + (matrix * in.keys + key) * in.width;
    R dp = 0;
    for (int64_t e = 0; e < in.width; ++e) {
      dp += Load(dy, index * in.width + e) * Load(value, e);
    }
    pair.ds = static_cast<R>(in.scale) * pair.p * (dp - delta);
    return pair;
  }
};

// Computes dq = ds k of a query.
template <typename T>
struct AttentionQueryGradFunctor {
  AttentionSlopes<T> slopes;
  T* dq = nullptr;
  Real_t<T>* scratch = nullptr;  // [rows of a launch, keys]
  int64_t first_row = 0;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const AttentionOperands<T>& in = slopes.in;
    const int64_t index = first_row + row;
    const int64_t matrix = index / in.queries;
    const int64_t query = index % in.queries;
    R* ds = scratch + row * in.keys;
    const R delta = slopes.Delta(index);
    for (int64_t s = group.lane(); s < in.keys; s += group.lanes()) {
      ds[s] = slopes.Of(matrix, query, s, delta).ds;
    }
    group.Meet();
    const T* keys = in.k + matrix * in.keys * in.depth;
    for (int64_t d = group.lane(); d < in.depth; d += group.lanes()) {
      R total = 0;
      for (int64_t s = 0; s < in.keys; ++s) {
        total += ds[s] * Load(keys, s * in.depth + d);
      }
      Store(dq, index * in.depth + d, total);
    }
  }
};

// Computes dk = ds^T q and dv = p^T dy of a key.
template <typename T>
struct AttentionKeyGradFunctor {
  AttentionSlopes<T> slopes;
  T* dk = nullptr;
  T* dv = nullptr;
  Real_t<T>* scratch = nullptr;  // [rows of a launch, 2, queries]
  int64_t first_row = 0;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const AttentionOperands<T>& in = slopes.in;
    const int64_t index = first_row + row;
    const int64_t matrix = index / in.keys;
    const int64_t key = index % in.keys;
    const int64_t first_query = matrix * in.queries;
    R* p = scratch + row * 2 * in.queries;
    R* ds = p + in.queries;
    for (int64_t t = group.lane(); t < in.queries; t += group.lanes()) {
      const R delta = slopes.Delta(first_query + t);
      const auto pair = slopes.Of(matrix, t, key, delta);
      p[t] = pair.p;
      ds[t] = pair.ds;
    }
    group.Meet();
    const T* queries = in.q + first_query * in.depth;
    for (int64_t d = group.lane(); d < in.depth; d += group.lanes()) {
      R total = 0;
      for (int64_t t = 0; t < in.queries; ++t) {
        total += ds[t] * Load(queries, t * in.depth + d);
      }
      Store(dk, index * in.depth + d, total);
    }
    const T* results = slopes.dy + first_query * in.width;
    for (int64_t e = group.lane(); e < in.width; e += group.lanes()) {
      R total = 0;
      for (int64_t t = 0; t < in.queries; ++t) {
        total += p[t] * Load(results, t * in.width + e);
      }
      Store(dv, index * in.width + e, total);
    }
  }
};

}  // namespace gpupool::engine::portable
