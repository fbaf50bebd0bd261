#include "engine/model/spec/residual_net.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/model/spec/layer_list.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kMaxWidth = 4096;
constexpr int64_t kBottleneckFactor = 4;

class ResidualNetWriter {
 public:
  ResidualNetWriter(const ResidualNet& net, v1::ModelSpec& spec)
      : net_(net), layers_(spec) {}

  void Write() {
    AddStem();
    int64_t filters = net_.width;
    for (size_t stage = 0; stage < net_.blocks.size(); ++stage) {
      for (int block = 0; block < net_.blocks[stage]; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        AddBlock(absl::StrCat("layer", stage + 1, ".", block), filters, stride);
      }
      filters *= 2;
    }
    layers_.Add("avgpool")->mutable_global_avg_pool();
    layers_.Add("fc")->mutable_dense()->set_units(net_.classes);
  }

 private:
  void AddStem() {
    if (net_.small_stem) {
      layers_.Convolve("conv1", {net_.width, 3, 1, 1});
    } else {
      layers_.Convolve("conv1", {net_.width, 7, 2, 3});
    }
    layers_.Add("bn1")->mutable_batch_norm();
    layers_.Add("relu")->mutable_relu();
    channels_ = net_.width;
    if (net_.small_stem) return;
    v1::MaxPool& pool = *layers_.Add("maxpool")->mutable_max_pool();
    pool.add_kernel(3);
    pool.add_stride(2);
    pool.add_padding(1);
  }

  // Adds the layers of a block and its shortcut. The shortcut is a convolution
  // where the shape changes, else the block's input.
  void AddBlock(const std::string& name, int64_t filters, int64_t stride) {
    const std::string from = layers_.last();
    const int64_t outputs =
        net_.bottleneck ? kBottleneckFactor * filters : filters;
    if (net_.bottleneck) {
      AddNormed(name, 1, {filters, 1, 1, 0});
      AddRelu(name, 1);
      AddNormed(name, 2, {filters, 3, stride, 1});
      AddRelu(name, 2);
      AddNormed(name, 3, {outputs, 1, 1, 0});
    } else {
      AddNormed(name, 1, {filters, 3, stride, 1});
      AddRelu(name, 1);
      AddNormed(name, 2, {filters, 3, 1, 1});
    }
    const std::string end = layers_.last();
    std::string shortcut = from;
    if (stride != 1 || channels_ != outputs) {
      layers_
          .Convolve(absl::StrCat(name, ".downsample.0"),
                    {outputs, 1, stride, 0})
          ->set_input(from);
      layers_.Add(absl::StrCat(name, ".downsample.1"))->mutable_batch_norm();
      shortcut = layers_.last();
    }
    v1::Layer* sum = layers_.Add(absl::StrCat(name, ".add"));
    sum->set_input(end);
    sum->mutable_add()->set_from(shortcut);
    layers_.Add(absl::StrCat(name, ".relu"))->mutable_relu();
    channels_ = outputs;
  }

  void AddNormed(const std::string& block, int number,
                 const ConvolutionShape& shape) {
    layers_.Convolve(absl::StrCat(block, ".conv", number), shape);
    layers_.Add(absl::StrCat(block, ".bn", number))->mutable_batch_norm();
  }

  void AddRelu(const std::string& block, int number) {
    layers_.Add(absl::StrCat(block, ".relu", number))->mutable_relu();
  }

  const ResidualNet& net_;
  LayerList layers_;
  int64_t channels_ = 0;  // of the newest layer
};

}  // namespace

absl::Status AddResidualNet(const v1::ResNet& options, ResidualNet net,
                            v1::ModelSpec& spec) {
  if (options.classes() < 0) {
    return Refuse("classes is ", options.classes(), "; write 1 or more");
  }
  if (options.width() < 0 || options.width() > kMaxWidth) {
    return Refuse("width is ", options.width(), "; write 1 .. ", kMaxWidth);
  }
  if (options.classes() > 0) net.classes = options.classes();
  if (options.width() > 0) net.width = options.width();
  if (options.small_stem()) net.small_stem = true;
  if (spec.input_shape().empty()) {
    const int64_t side = net.small_stem ? 32 : 224;
    for (const int64_t size : {int64_t{3}, side, side}) {
      spec.add_input_shape(size);
    }
  }
  ResidualNetWriter(net, spec).Write();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
