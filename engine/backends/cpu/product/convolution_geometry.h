// The parts of a convolution's geometry in oneDNN's terms. Pure.
#pragma once

#include <cstdint>
#include <dnnl.hpp>

#include "engine/graph/attributes.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// One number for each spatial axis. A dilation of 0 is a dense kernel.
struct ConvolutionWindow {
  dnnl::memory::dims stride, dilation, begin, end;
};

ConvolutionWindow ConvolutionWindowOf(const Conv2dAttributes& conv,
                                      const Shape& x, const Shape& w);

// Returns the row-major format of weights [filters, channels / groups,
// kernel...]. With several groups it has an axis for them.
dnnl::memory::desc WeightDesc(const Value& w, int64_t groups);

}  // namespace gpupool::engine
