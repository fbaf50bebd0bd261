#include "engine/model/spec/layer_list.h"

namespace gpupool::engine {

v1::Layer* LayerList::Add(absl::string_view name) {
  v1::Layer* layer = spec_.add_layers();
  layer->set_name(std::string(name));
  return layer;
}

v1::Layer* LayerList::Convolve(absl::string_view name,
                               const ConvolutionShape& shape) {
  v1::Layer* layer = Add(name);
  layer->set_initial_weight(v1::Layer::KAIMING_NORMAL);
  v1::Conv2d& convolution = *layer->mutable_conv2d();
  convolution.set_filters(shape.filters);
  convolution.add_kernel(shape.kernel);
  convolution.add_stride(shape.stride);
  convolution.add_padding(shape.padding);
  convolution.set_bias(false);
  return layer;
}

std::string LayerList::last() const {
  if (spec_.layers_size() == 0) return "input";
  return spec_.layers(spec_.layers_size() - 1).name();
}

}  // namespace gpupool::engine
