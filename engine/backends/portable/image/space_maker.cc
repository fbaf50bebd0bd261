#include "engine/backends/portable/image/space_maker.h"

namespace gpupool::engine::portable {

SpaceStrides StridesOf(const Value& x) {
  const auto strides = MemoryStrides(x.shape, x.layout);
  SpaceStrides result;
  result.example = strides[0];
  result.channel = strides[1];
  // An image has no depth axis, whose stride stays 0.
  const int missing = 5 - x.shape.rank();
  for (int axis = missing; axis < 3; ++axis) {
    result.cell[axis] = strides[static_cast<size_t>(2 + axis - missing)];
  }
  return result;
}

SpaceGrid PlacesOf(const Value& x) {
  const Shape& shape = x.shape;
  const bool volume = shape.rank() == 5;
  const int64_t depth = volume ? shape[2] : 1;
  const int64_t height = shape[shape.rank() - 2];
  const int64_t width = shape[shape.rank() - 1];
  SpaceGrid places;
  places.channels_last = x.layout == Layout::kChannelsLast && !volume;
  places.grid = places.channels_last
                    ? GridOf({shape[0], depth, height, width, shape[1]})
                    : GridOf({shape[0], shape[1], depth, height, width});
  return places;
}

SlideWindow SlideOf(const Window& window) {
  SlideWindow slide;
  for (size_t axis = 0; axis < kWindowAxes; ++axis) {
    const WindowAxis& from = window[axis];
    SlideAxis& to = slide.axis[axis];
    to.input = from.input;
    to.output = from.output();
    to.kernel = from.kernel;
    to.stride = from.stride;
    to.dilation = from.dilation;
    to.before = from.begin;
    to.behind = from.end;
  }
  return slide;
}

}  // namespace gpupool::engine::portable
