#include "engine/backends/cpu/product/convolution_geometry.h"

#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/graph/window.h"

namespace gpupool::engine {

ConvolutionWindow ConvolutionWindowOf(const Conv2dAttributes& conv,
                                      const Shape& x, const Shape& w) {
  ConvolutionWindow result;
  const Window window = WindowOf(conv, x, w);
  for (size_t i = x.rank() == 5 ? 0 : 1; i < window.size(); ++i) {
    result.stride.push_back(window[i].stride);
    result.dilation.push_back(window[i].dilation - 1);
    result.begin.push_back(window[i].begin);
    result.end.push_back(window[i].end);
  }
  return result;
}

dnnl::memory::desc WeightDesc(const Value& w, int64_t groups) {
  const Shape& shape = w.shape;
  using Tag = dnnl::memory::format_tag;
  const bool volume = shape.rank() == 5;
  dnnl::memory::dims dims(shape.dims().begin(), shape.dims().end());
  Tag tag = volume ? Tag::oidhw : Tag::oihw;
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
    tag = volume ? Tag::goidhw : Tag::goihw;
  }
  return {dims, DnnlType(w.dtype), tag};
}

}  // namespace gpupool::engine
