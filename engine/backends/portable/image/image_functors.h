// Functors of resizing and of response normalisation, one element of the result
// per call, and the list of the image family's functors. (Host and device;
// plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/image/pool_functors.h"

namespace gpupool::engine::portable {

// Copies a piece of a table from its arguments, which the host fills, to the
// device. Call i copies byte i.
struct TableFunctor {
  static constexpr int64_t kMostBytes = 3072;

  uint8_t bytes[kMostBytes];
  uint8_t* to = nullptr;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const { to[i] = bytes[i]; }
};

// A linear map along an axis. Result cell o is the sum over t from first[o] to
// first[o + 1] of weights[t] * source cell cells[t].
struct AxisMap {
  const int32_t* first = nullptr;
  const int32_t* cells = nullptr;
  const double* weights = nullptr;
  int32_t axis = 0;           // of the result's grid
  int64_t source_stride = 1;  // elements between neighbours
};

// Applies the maps of several axes one after the other.
template <typename T>
struct ResizeFunctor {
  static constexpr int kMostAxes = kMaxLoops;

  const T* x = nullptr;
  T* y = nullptr;
  Grid grid;                          // of y, in the order of its memory
  int64_t source_strides[kMaxLoops];  // of axes that stay, else 0
  AxisMap maps[kMostAxes];
  int32_t map_count = 0;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    int64_t at[kMaxLoops];
    grid.Split(i, at);
    int64_t first = 0;
    for (int axis = 0; axis < grid.axes; ++axis) {
      first += at[axis] * source_strides[axis];
    }
    int32_t tap[kMostAxes], end[kMostAxes];
    for (int m = 0; m < map_count; ++m) {
      const int32_t* range = maps[m].first + at[maps[m].axis];
      tap[m] = range[0];
      end[m] = range[1];
      if (tap[m] == end[m]) return Store(y, i, R(0));
    }
    double sum = 0;
    while (true) {
      double weight = 1;
      int64_t source = first;
      for (int m = 0; m < map_count; ++m) {
        weight *= maps[m].weights[tap[m]];
        source += maps[m].cells[tap[m]] * maps[m].source_stride;
      }
      sum += weight * Load(x, source);
      int m = map_count - 1;
      for (; m >= 0; --m) {
        if (++tap[m] < end[m]) break;
        tap[m] = maps[m].first[at[maps[m].axis]];
      }
      if (m < 0) break;
    }
    Store(y, i, static_cast<R>(sum));
  }
};

// y = x / (bias + alpha / size * s)^beta, where s is the sum of squares over
// the `size` channels around each channel. Any floating type.
struct LrnShape {
  DType type = DType::kFloat32;
  Walk<1> channel_of;          // of the place in memory
  int64_t channel_stride = 1;  // elements between channels
  int64_t channels = 1;
  int64_t before = 2, behind = 2;  // channels of the window on each side
  double bias = 1;
  double factor = 1;  // alpha / size
  double beta = 0.75;

  // Returns bias + factor * (the sum of squares around channel c, which is at
  // `at`).
  GPUPOOL_HOST_DEVICE double Base(const void* x, int64_t at, int64_t c) const {
    const int64_t first = c < before ? 0 : c - before;
    const int64_t last = behind < channels - c ? c + behind : channels - 1;
    double squares = 0;
    for (int64_t j = first; j <= last; ++j) {
      const double number = LoadDouble(type, x, at + (j - c) * channel_stride);
      squares += number * number;
    }
    return bias + factor * squares;
  }
};

struct LrnFunctor {
  const void* x = nullptr;
  void* y = nullptr;
  LrnShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const double base = shape.Base(x, i, shape.channel_of.FindOne(i, 0));
    StoreDouble(shape.type, y, i,
                LoadDouble(shape.type, x, i) * std::pow(base, -shape.beta));
  }
};

// Computes
// dx_j = dy_j base_j^-beta - 2 factor beta x_j *
//        sum over the c whose window holds j of dy_c x_c base_c^(-beta - 1).
struct LrnGradFunctor {
  const void* dy = nullptr;
  const void* x = nullptr;
  void* dx = nullptr;
  LrnShape shape;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const DType type = shape.type;
    const int64_t j = shape.channel_of.FindOne(i, 0);
    const int64_t first = j < shape.behind ? 0 : j - shape.behind;
    const int64_t last = shape.before < shape.channels - j ? j + shape.before
                                                           : shape.channels - 1;
    double through = 0;
    for (int64_t c = first; c <= last; ++c) {
      const int64_t at = i + (c - j) * shape.channel_stride;
      through += LoadDouble(type, dy, at) * LoadDouble(type, x, at) *
                 std::pow(shape.Base(x, at, c), -shape.beta - 1);
    }
    const double own =
        LoadDouble(type, dy, i) * std::pow(shape.Base(x, i, j), -shape.beta);
    StoreDouble(
        type, dx, i,
        own - 2 * shape.factor * shape.beta * LoadDouble(type, x, i) * through);
  }
};

}  // namespace gpupool::engine::portable

#define GPUPOOL_IMAGE_FUNCTORS_OF(FOR, ROWS, T) \
  FOR(MaxPoolFunctor<T>)                        \
  FOR(MaxPoolGradFunctor<T>)                    \
  FOR(AvgPoolFunctor<T>)                        \
  FOR(AvgPoolGradFunctor<T>)                    \
  FOR(GlobalAvgPoolFunctor<T>)                  \
  FOR(GlobalAvgPoolGradFunctor<T>)              \
  FOR(ResizeFunctor<T>)                         \
  ROWS(GlobalAvgPoolFunctor<T>)

// Calls FOR with every functor of LaunchFor, ROWS with those of LaunchRows.
#define GPUPOOL_IMAGE_FUNCTORS(FOR, ROWS)        \
  FOR(TableFunctor)                              \
  FOR(LrnFunctor)                                \
  FOR(LrnGradFunctor)                            \
  GPUPOOL_IMAGE_FUNCTORS_OF(FOR, ROWS, float)    \
  GPUPOOL_IMAGE_FUNCTORS_OF(FOR, ROWS, BFloat16) \
  GPUPOOL_IMAGE_FUNCTORS_OF(FOR, ROWS, Float16)  \
  GPUPOOL_IMAGE_FUNCTORS_OF(FOR, ROWS, double)
