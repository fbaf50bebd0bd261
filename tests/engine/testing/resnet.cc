#include "tests/engine/testing/resnet.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/testing/built_model.h"

namespace gpupool::engine::testing {
namespace {

// A bottleneck has this many times its width as outputs.
constexpr int64_t kExpansion = 4;

struct Window {
  int64_t size = 1;
  int64_t stride = 1;
};

class ResnetAssembly {
 public:
  ResnetAssembly(const ResNetSizes& sizes, const BuildOptions& options)
      : s_(sizes), make_(options) {}

  ModelGraph Build() {
    ValueId x = make_.Input("input", DType::kFloat32, {3, s_.image, s_.image});
    x = Relu("relu", ConvNorm("conv1", x, s_.width, {7, 2}));
    x = make_.Layer("maxpool", MaxPool(), x);
    int64_t width = s_.width;
    for (size_t stage = 0; stage < s_.blocks.size(); ++stage) {
      for (int block = 0; block < s_.blocks[stage]; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        x = Bottleneck(absl::StrCat("layer", stage + 1, ".", block, "."), x,
                       width, stride);
      }
      width *= 2;
    }
    v1::Layer pool;
    pool.mutable_global_avg_pool();
    x = make_.Layer("avgpool", pool, x);
    return make_.Finish("output", make_.Dense("fc", x, s_.classes));
  }

 private:
  static v1::Layer MaxPool() {
    v1::Layer layer;
    layer.mutable_max_pool()->add_kernel(3);
    layer.mutable_max_pool()->add_stride(2);
    layer.mutable_max_pool()->add_padding(1);
    return layer;
  }
  ValueId ConvNorm(const std::string& name, ValueId x, int64_t filters,
                   Window window) {
    v1::Layer layer;
    v1::Conv2d& conv = *layer.mutable_conv2d();
    conv.set_filters(filters);
    conv.add_kernel(window.size);
    conv.add_stride(window.stride);
    conv.add_padding(window.size / 2);
    conv.set_bias(false);
    x = make_.Layer(name, layer, x);
    layer.mutable_batch_norm();
    return make_.Layer(name + "_norm", layer, x);
  }
  ValueId Relu(const std::string& name, ValueId x) {
    v1::Layer layer;
    layer.mutable_relu();
    return make_.Layer(name, layer, x);
  }
  ValueId Bottleneck(const std::string& name, ValueId x, int64_t width,
                     int64_t stride) {
    ValueId y = Relu(name + "relu1", ConvNorm(name + "conv1", x, width, {}));
    y = ConvNorm(name + "conv2", y, width, {3, stride});
    y = Relu(name + "relu2", y);
    y = ConvNorm(name + "conv3", y, kExpansion * width, {});
    if (make_.shape(x) != make_.shape(y)) {
      x = ConvNorm(name + "downsample", x, kExpansion * width, {1, stride});
    }
    return Relu(name + "relu3", make_.Add(y, x));
  }

  const ResNetSizes s_;
  ModelAssembly make_;
};

}  // namespace

std::shared_ptr<const ModelSource> ResNet(const ResNetSizes& sizes) {
  return BuiltModel([sizes](const BuildOptions& options) {
    return ResnetAssembly(sizes, options).Build();
  });
}

}  // namespace gpupool::engine::testing
