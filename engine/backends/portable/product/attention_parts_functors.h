// Functors before, between and after the products of attention, when a library
// computes the products. Part of the product family. (Host and device; plain
// C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/product/attention_functors.h"

namespace gpupool::engine::portable {

// Copies a mask and raises numbers below `least` to `least`.
template <typename T>
struct FiniteMaskFunctor {
  const T* mask = nullptr;
  T* y = nullptr;
  Real_t<T> least = 0;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const Real_t<T> x = Load(mask, i);
    Store(y, i, x < least ? least : x);
  }
};

// Copies logarithms of sums and replaces those of empty sums by `most`, so that
// exp(score - y) is 0 there.
struct FiniteLogarithmsFunctor {
  const float* lse = nullptr;
  float* y = nullptr;
  float most = 0;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    y[i] = lse[i] == -HUGE_VALF ? most : lse[i];
  }
};

// Sets y to 0 and lse to -infinity for queries that see no key. Other rows
// stay.
template <typename T>
struct BlindRowsFunctor {
  AttentionOperands<T> in;
  T* y = nullptr;
  float* lse = nullptr;  // null: not wanted

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t matrix = row / in.queries;
    const int64_t query = row % in.queries;
    bool visible = false;
    for (int64_t first = 0; first < in.keys && !visible;
         first += group.lanes()) {
      const int64_t s = first + group.lane();
      const bool mine = s < in.keys && in.Sees(query, s) &&
                        in.Mask(matrix, query, s) != -Real_t<T>(HUGE_VAL);
      visible = group.Max(mine ? 1.0F : 0.0F) > 0;
    }
    if (visible) return;
    for (int64_t e = group.lane(); e < in.width; e += group.lanes()) {
      Store(y, row * in.width + e, 0);
    }
    if (lse != nullptr && group.lane() == 0) lse[row] = -HUGE_VALF;
  }
};

// Replaces a row of scores by its softmax.
struct AttentionSharesFunctor {
  AttentionOperands<float> in;  // its mask, if any
  float* scores = nullptr;      // [rows, keys]
  float* lse = nullptr;         // [rows]; null: not wanted
  int64_t first_matrix = 0;     // of row 0

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t matrix = first_matrix + row / in.queries;
    const int64_t query = row % in.queries;
    float* const p = scores + row * in.keys;
    float mine = -HUGE_VALF;
    for (int64_t s = group.lane(); s < in.keys; s += group.lanes()) {
      float score = -HUGE_VALF;
      if (in.Sees(query, s)) {
        score = p[s];
        if (in.mask != nullptr) score += in.Mask(matrix, query, s);
      }
      p[s] = score;
      if (score > mine) mine = score;
    }
    const float top = group.Max(mine);
    const bool blind = top == -HUGE_VALF;
    double sum = 0;
    for (int64_t s = group.lane(); s < in.keys; s += group.lanes()) {
      p[s] = blind ? 0 : std::exp(p[s] - top);
      sum += p[s];
    }
    sum = group.Sum(sum);
    if (lse != nullptr && group.lane() == 0) {
      lse[row] = blind ? top : static_cast<float>(top + std::log(sum));
    }
    if (blind) return;
    const auto share = static_cast<float>(1 / sum);
    for (int64_t s = group.lane(); s < in.keys; s += group.lanes()) {
      p[s] *= share;
    }
  }
};

// Replaces a row's scores by the softmax p, and its dy v^T by p * (dy v^T -
// sum(dy * y)).
struct AttentionSlopesFunctor {
  AttentionOperands<float> in;  // its mask, if any
  const float* dy = nullptr;    // [rows, width]
  const float* y = nullptr;     // the same
  const float* lse = nullptr;   // [rows]
  float* p = nullptr;           // [rows, keys]: scores before
  float* ds = nullptr;          // [rows, keys]: dy v^T before
  int64_t first_matrix = 0;     // of row 0

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t matrix = first_matrix + row / in.queries;
    const int64_t query = row % in.queries;
    const float logarithm = lse[row];
    float mine = 0;
    for (int64_t e = group.lane(); e < in.width; e += group.lanes()) {
      mine += dy[row * in.width + e] * y[row * in.width + e];
    }
    const float delta = group.Sum(mine);
    for (int64_t s = group.lane(); s < in.keys; s += group.lanes()) {
      const int64_t at = row * in.keys + s;
      float share = 0;
      if (logarithm != -HUGE_VALF && in.Sees(query, s)) {
        float score = p[at];
        if (in.mask != nullptr) score += in.Mask(matrix, query, s);
        share = std::exp(score - logarithm);
      }
      p[at] = share;
      ds[at] = share * (ds[at] - delta);
    }
  }
};

}  // namespace gpupool::engine::portable
