// Functors of pools and their gradients, one element of the result per call.
// Part of the image family. (Host and device; plain C++.) A gradient gathers
// from the windows that hold a cell, so no two threads add to the same element.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/image/image_space.h"

namespace gpupool::engine::portable {

struct PoolShape {
  SlideWindow window;
  SpaceStrides x;
  SpaceStrides y;
  bool exclude_padding = false;

  // Returns the divisor of an output cell's average.
  GPUPOOL_HOST_DEVICE int64_t Divisor(const int64_t* cell) const {
    int64_t cells = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const SlideAxis& along = window.axis[axis];
      cells *= exclude_padding ? along.Real(cell[axis]).count()
                               : along.Padded(cell[axis]).count();
    }
    return cells;
  }
};

template <typename T>
struct MaxPoolFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  void* argmax = nullptr;  // null: not wanted; lies as y does
  DType argmax_type = DType::kUint8;
  PoolShape shape;
  SpaceGrid places;  // of y

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const Place place = places.Find(i);
    const T* from = x + shape.x.At(place.example, place.channel);
    R best = -R(HUGE_VAL);
    int64_t best_position = -1;
    shape.window.ForEachInput(place, shape.x,
                              [&](int64_t position, int64_t offset) {
                                const R number = Load(from, offset);
                                if (best_position >= 0 && !(number > best))
                                  return;
                                best = number;
                                best_position = position;
                              });
    Store(y, i, best);
    if (argmax == nullptr) return;
    StoreNumber(argmax_type, argmax, i,
                Whole(best_position < 0 ? 0 : best_position));
  }
};

template <typename T>
struct MaxPoolGradFunctor {
  const T* dy = nullptr;
  const void* argmax = nullptr;
  T* dx = nullptr;
  DType argmax_type = DType::kUint8;
  PoolShape shape;
  SpaceGrid places;  // of dx

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const Place place = places.Find(i);
    const int64_t first = shape.y.At(place.example, place.channel);
    Real_t<T> sum = 0;
    shape.window.ForEachOutput(
        place, [&](int64_t position, const int64_t* cell) {
          const int64_t at = first + CellsAt(shape.y, cell);
          if (LoadNumber(argmax_type, argmax, at).whole == position) {
            sum += Load(dy, at);
          }
        });
    Store(dx, i, sum);
  }
};

template <typename T>
struct AvgPoolFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  PoolShape shape;
  SpaceGrid places;  // of y

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const Place place = places.Find(i);
    const T* from = x + shape.x.At(place.example, place.channel);
    R sum = 0;
    int64_t cells = 0;
    shape.window.ForEachInput(place, shape.x, [&](int64_t, int64_t offset) {
      sum += Load(from, offset);
      ++cells;
    });
    // A window without real cells gives 0.
    Store(y, i,
          cells == 0 ? R(0) : sum / static_cast<R>(shape.Divisor(place.cell)));
  }
};

template <typename T>
struct AvgPoolGradFunctor {
  const T* dy = nullptr;
  T* dx = nullptr;
  PoolShape shape;
  SpaceGrid places;  // of dx

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const Place place = places.Find(i);
    const T* slopes = dy + shape.y.At(place.example, place.channel);
    R sum = 0;
    shape.window.ForEachOutput(place, [&](int64_t, const int64_t* cell) {
      sum += Load(slopes, CellsAt(shape.y, cell)) /
             static_cast<R>(shape.Divisor(cell));
    });
    Store(dx, i, sum);
  }
};

// Computes the mean of each channel of x, with one thread or one group per
// channel.
template <typename T>
struct GlobalAvgPoolFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  int64_t channels = 1;
  int64_t cells = 1;
  int64_t example_stride = 1;
  int64_t channel_stride = 1;
  int64_t cell_stride = 1;

  GPUPOOL_HOST_DEVICE double Add(int64_t row, int64_t lane,
                                 int64_t lanes) const {
    const T* from =
        x + row / channels * example_stride + row % channels * channel_stride;
    double sum = 0;
    for (int64_t i = lane; i < cells; i += lanes) {
      sum += Load(from, i * cell_stride);
    }
    return sum;
  }
  GPUPOOL_HOST_DEVICE void Finish(int64_t row, double sum) const {
    Store(y, row, static_cast<Real_t<T>>(sum / static_cast<double>(cells)));
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t row) const {
    Finish(row, Add(row, 0, 1));
  }
  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    const double sum = group.Sum(Add(row, group.lane(), group.lanes()));
    if (group.lane() == 0) Finish(row, sum);
  }
};

template <typename T>
struct GlobalAvgPoolGradFunctor {
  const T* dy = nullptr;
  T* dx = nullptr;
  Walk<1> channel_of;  // row-major place in dy of a place in dx
  double share = 1;    // 1 / cells

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    Store(dx, i,
          Load(dy, channel_of.FindOne(i, 0)) * static_cast<Real_t<T>>(share));
  }
};

}  // namespace gpupool::engine::portable
