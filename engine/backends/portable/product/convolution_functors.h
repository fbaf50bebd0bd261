// Functors of convolutions and their gradients, one element of the result per
// call. Part of the product family. (Host and device; plain C++.) Weights are
// row-major: [filters, channels of a group, kernel].
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/image/image_space.h"
#include "engine/backends/portable/product/epilogue.h"

namespace gpupool::engine::portable {

struct ConvolutionShape {
  SlideWindow window;
  SpaceStrides x;
  SpaceStrides y;
  int64_t examples = 1;
  int64_t group_channels = 1;  // of a group
  int64_t group_filters = 1;   // of a group
  int64_t kernel_cells = 1;
};

template <typename T>
struct ConvolutionFunctor {
  const T* x = nullptr;
  const T* w = nullptr;
  T* y = nullptr;
  ConvolutionShape shape;
  SpaceGrid places;  // of y
  EpilogueOf<T> epilogue;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const Place place = places.Find(i);
    const int64_t filter = place.channel;
    const int64_t channels = shape.group_channels;
    const T* from =
        x + shape.x.At(place.example, filter / shape.group_filters * channels);
    const T* weights = w + filter * channels * shape.kernel_cells;
    R sum = 0;
    shape.window.ForEachInput(
        place, shape.x, [&](int64_t position, int64_t offset) {
          for (int64_t c = 0; c < channels; ++c) {
            sum += Load(from, offset + c * shape.x.channel) *
                   Load(weights, c * shape.kernel_cells + position);
          }
        });
    Store(y, i, epilogue.Apply(sum, filter, i));
  }
};

template <typename T>
struct ConvolutionInputGradFunctor {
  const T* dy = nullptr;
  const T* w = nullptr;
  T* dx = nullptr;
  ConvolutionShape shape;
  SpaceGrid places;  // of dx

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    using R = Real_t<T>;
    const Place place = places.Find(i);
    const int64_t channels = shape.group_channels;
    const int64_t group = place.channel / channels;
    const int64_t first = group * shape.group_filters;
    const int64_t per_filter = channels * shape.kernel_cells;
    const T* from = dy + shape.y.At(place.example, first);
    const T* weights = w + first * per_filter +
                       (place.channel - group * channels) * shape.kernel_cells;
    R sum = 0;
    shape.window.ForEachOutput(
        place, [&](int64_t position, const int64_t* cell) {
          const int64_t offset = CellsAt(shape.y, cell);
          for (int64_t f = 0; f < shape.group_filters; ++f) {
            sum += Load(from, offset + f * shape.y.channel) *
                   Load(weights, f * per_filter + position);
          }
        });
    Store(dx, i, sum);
  }
};

// A line of the output, as [example, depth, height], in a sum over the whole
// output.
struct OutputLine {
  int64_t example;
  int64_t cell[2];

  GPUPOOL_HOST_DEVICE static OutputLine Of(const ConvolutionShape& shape,
                                           int64_t line) {
    const int64_t height = shape.window.axis[1].output;
    const int64_t depth = shape.window.axis[0].output;
    const int64_t slice = line / height;
    return {slice / depth, {slice % depth, line % height}};
  }
  GPUPOOL_HOST_DEVICE int64_t At(const ConvolutionShape& shape) const {
    return example * shape.y.example + cell[0] * shape.y.cell[0] +
           cell[1] * shape.y.cell[1];
  }
};

GPUPOOL_HOST_DEVICE inline int64_t LineCount(const ConvolutionShape& shape) {
  return shape.examples * shape.window.axis[0].output *
         shape.window.axis[1].output;
}

// Computes an element of the gradient by the weights. Lanes share the output's
// lines. Sums are double.
template <typename T>
struct ConvolutionWeightGradFunctor {
  const T* dy = nullptr;
  const T* x = nullptr;
  T* dw = nullptr;
  ConvolutionShape shape;
  Grid weights;  // filter, channel of the group, depth, height, width

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t i) const {
    using R = Real_t<T>;
    int64_t at[5];
    weights.Split(i, at);
    const int64_t channel =
        at[0] / shape.group_filters * shape.group_channels + at[1];
    const T* slopes = dy + at[0] * shape.y.channel;
    const T* from = x + channel * shape.x.channel;
    const SlideAxis& along = shape.window.axis[2];
    double total = 0;
    const int64_t lines = LineCount(shape);
    for (int64_t l = group.lane(); l < lines; l += group.lanes()) {
      const OutputLine line = OutputLine::Of(shape, l);
      int64_t source = line.example * shape.x.example;
      bool real = true;
      for (int a = 0; a < 2; ++a) {
        const SlideAxis& axis = shape.window.axis[a];
        const int64_t cell = axis.Input(line.cell[a], at[2 + a]);
        real = real && cell >= 0 && cell < axis.input;
        source += cell * shape.x.cell[a];
      }
      if (!real) continue;
      const int64_t result = line.At(shape);
      R sum = 0;
      for (int64_t w = 0; w < along.output; ++w) {
        const int64_t cell = along.Input(w, at[4]);
        if (cell < 0 || cell >= along.input) continue;
        sum += Load(slopes, result + w * shape.y.cell[2]) *
               Load(from, source + cell * shape.x.cell[2]);
      }
      total += sum;
    }
    total = group.Sum(total);
    if (group.lane() == 0) Store(dw, i, static_cast<R>(total));
  }
};

// Sums up the slopes of a filter.
template <typename T>
struct ConvolutionBiasGradFunctor {
  const T* dy = nullptr;
  T* db = nullptr;
  ConvolutionShape shape;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group,
                                      int64_t filter) const {
    const T* slopes = dy + filter * shape.y.channel;
    const int64_t width = shape.window.axis[2].output;
    double total = 0;
    const int64_t cells = LineCount(shape) * width;
    for (int64_t c = group.lane(); c < cells; c += group.lanes()) {
      const OutputLine line = OutputLine::Of(shape, c / width);
      total += Load(slopes, line.At(shape) + c % width * shape.y.cell[2]);
    }
    total = group.Sum(total);
    if (group.lane() == 0) Store(db, filter, static_cast<Real_t<T>>(total));
  }
};

}  // namespace gpupool::engine::portable
