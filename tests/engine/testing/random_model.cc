#include "tests/engine/testing/random_model.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"

namespace gpupool::engine::testing {
namespace {

class ModelGenerator {
 public:
  explicit ModelGenerator(uint64_t seed) : philox_(seed) {}

  v1::ModelSpec Make() {
    channels_ = Pick(1, 3);
    height_ = Pick(5, 8);
    width_ = Pick(5, 8);
    for (int64_t dim : {channels_, height_, width_}) spec_.add_input_shape(dim);
    int64_t count = Pick(1, 6);
    while (count-- > 0 && height_ > 2 && width_ > 2) AddImageLayer();
    if (Pick(0, 2) == 0) {
      Add()->mutable_global_avg_pool();
    } else {
      Add()->mutable_flatten();
    }
    count = Pick(0, 3);
    while (count-- > 0) AddFlatLayer();
    Add()->mutable_dense()->set_units(3);
    return spec_;
  }

 private:
  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(
                     philox_.NextBelow(static_cast<uint64_t>(high - low + 1)));
  }

  v1::Layer* Add() {
    v1::Layer* layer = spec_.add_layers();
    layer->set_name(absl::StrCat("layer", spec_.layers_size() - 1));
    return layer;
  }

  void AddConv() {
    v1::Conv2d* conv = Add()->mutable_conv2d();
    const int64_t kernel = Pick(1, 3);
    const int64_t stride = Pick(0, 3) == 0 ? 2 : 1;
    const int64_t padding = Pick(0, 1);
    const bool grouped = channels_ % 2 == 0 && Pick(0, 1) == 0;
    channels_ = 2 * Pick(1, 2);
    conv->set_filters(channels_);
    conv->add_kernel(kernel);
    conv->add_stride(stride);
    conv->add_padding(padding);
    if (grouped) conv->set_groups(2);
    conv->set_bias(Pick(0, 1) == 0);
    height_ = (height_ + 2 * padding - kernel) / stride + 1;
    width_ = (width_ + 2 * padding - kernel) / stride + 1;
  }

  // Adds a 1x1 convolution to the same shape, then adds the layer's input.
  void AddResidual() {
    const std::string from = spec_.layers_size() == 0
                                 ? "input"
                                 : spec_.layers(spec_.layers_size() - 1).name();
    v1::Conv2d* conv = Add()->mutable_conv2d();
    conv->set_filters(channels_);
    conv->add_kernel(1);
    if (Pick(0, 1) == 0) Add()->mutable_batch_norm();
    Add()->mutable_add()->set_from(from);
  }

  void AddActivation() {
    v1::Layer* layer = Add();
    switch (Pick(0, 4)) {
      case 0:
        layer->mutable_gelu()->set_tanh_approximation(Pick(0, 1) == 0);
        break;
      case 1:
        layer->mutable_sigmoid();
        break;
      case 2:
        layer->mutable_tanh();
        break;
      default:
        layer->mutable_relu();
    }
  }

  void AddImageLayer() {
    switch (Pick(0, 7)) {
      case 0:
        Add()->mutable_batch_norm();
        return;
      case 1:
      case 2:
        AddActivation();
        return;
      case 3:
        AddPool();
        return;
      case 4:
        AddResidual();
        return;
      case 5:
        Add()->mutable_layer_norm();
        return;
      default:
        AddConv();
    }
  }

  void AddPool() {
    v1::Layer* layer = Add();
    if (Pick(0, 1) == 0) {
      layer->mutable_max_pool()->add_kernel(2);
    } else {
      layer->mutable_avg_pool()->add_kernel(2);
    }
    height_ /= 2;
    width_ /= 2;
  }

  void AddFlatLayer() {
    switch (Pick(0, 4)) {
      case 0:
        AddActivation();
        return;
      case 1:
        Add()->mutable_dropout()->set_probability(0.3);
        return;
      case 2:
        Add()->mutable_batch_norm();
        return;
      default:
        Add()->mutable_dense()->set_units(Pick(2, 6));
    }
  }

  Philox philox_;
  v1::ModelSpec spec_;
  int64_t channels_ = 0, height_ = 0, width_ = 0;
};

}  // namespace

v1::ModelSpec RandomModel(uint64_t seed) { return ModelGenerator(seed).Make(); }

}  // namespace gpupool::engine::testing
