#include "engine/model/spec/named_models.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/spec/layer_list.h"
#include "engine/model/spec/residual_net.h"
#include "engine/model/spec/transformers.h"

namespace gpupool::engine {
namespace {

constexpr int kMaxHiddenLayers = 100;
constexpr int64_t kDefaultClasses = 10;

absl::StatusOr<int64_t> ClassesOr(int64_t classes, int64_t fallback) {
  if (classes < 0) return Refuse("classes is ", classes, "; write 1 or more");
  return classes == 0 ? fallback : classes;
}

// Adds "fc<number>".
void AddDense(int number, int64_t units, LayerList& layers) {
  layers.Add(absl::StrCat("fc", number))->mutable_dense()->set_units(units);
}

// Adds a convolution of 5 x 5 with tanh, and the pooling after it.
void AddLeNetStage(int number, int64_t filters, int64_t padding,
                   LayerList& layers) {
  v1::Conv2d& convolution =
      *layers.Add(absl::StrCat("conv", number))->mutable_conv2d();
  convolution.set_filters(filters);
  convolution.add_kernel(5);
  convolution.add_padding(padding);
  layers.Add(absl::StrCat("tanh", number))->mutable_tanh();
  layers.Add(absl::StrCat("pool", number))->mutable_avg_pool()->add_kernel(2);
}

absl::Status AddLeNet5(const v1::LeNet5& options, v1::ModelSpec& spec) {
  constexpr int64_t kFullSide = 32;
  ASSIGN_OR_RETURN(const int64_t classes,
                   ClassesOr(options.classes(), kDefaultClasses));
  if (spec.input_shape().empty()) {
    for (const int64_t size : {1, 28, 28}) spec.add_input_shape(size);
  }
  if (spec.input_shape_size() != 3) {
    return Refuse("input_shape has ", spec.input_shape_size(),
                  " dimensions; write [channels, height, width]");
  }
  const bool small =
      spec.input_shape(1) < kFullSide || spec.input_shape(2) < kFullSide;
  LayerList layers(spec);
  AddLeNetStage(1, 6, small ? 2 : 0, layers);
  AddLeNetStage(2, 16, 0, layers);
  layers.Add("flatten")->mutable_flatten();
  AddDense(1, 120, layers);
  layers.Add("tanh3")->mutable_tanh();
  AddDense(2, 84, layers);
  layers.Add("tanh4")->mutable_tanh();
  AddDense(3, classes, layers);
  return absl::OkStatus();
}

absl::Status AddPerceptron(const v1::MultiLayerPerceptron& options,
                           v1::ModelSpec& spec) {
  ASSIGN_OR_RETURN(const int64_t classes,
                   ClassesOr(options.classes(), kDefaultClasses));
  if (options.hidden_size() > kMaxHiddenLayers) {
    return Refuse("hidden has ", options.hidden_size(), " layers; at most ",
                  kMaxHiddenLayers, " are possible");
  }
  std::vector<int64_t> hidden(options.hidden().begin(), options.hidden().end());
  if (hidden.empty()) hidden = {256, 128};
  if (spec.input_shape().empty()) spec.add_input_shape(784);
  LayerList layers(spec);
  if (spec.input_shape_size() > 1) layers.Add("flatten")->mutable_flatten();
  int number = 0;
  for (const int64_t units : hidden) {
    AddDense(++number, units, layers);
    layers.Add(absl::StrCat("relu", number))->mutable_relu();
    if (options.dropout() == 0) continue;
    layers.Add(absl::StrCat("dropout", number))
        ->mutable_dropout()
        ->set_probability(options.dropout());
  }
  AddDense(++number, classes, layers);
  return absl::OkStatus();
}

absl::Status AddLayers(const v1::NamedModel& named, v1::ModelSpec& spec) {
  switch (named.kind_case()) {
    case v1::NamedModel::kLenet5:
      return AddLeNet5(named.lenet5(), spec);
    case v1::NamedModel::kMlp:
      return AddPerceptron(named.mlp(), spec);
    case v1::NamedModel::kResnet18:
      return AddResidualNet(named.resnet18(), {.blocks = {2, 2, 2, 2}}, spec);
    case v1::NamedModel::kResnet34:
      return AddResidualNet(named.resnet34(), {.blocks = {3, 4, 6, 3}}, spec);
    case v1::NamedModel::kResnet50:
      return AddResidualNet(named.resnet50(),
                            {.blocks = {3, 4, 6, 3}, .bottleneck = true}, spec);
    case v1::NamedModel::kResnet20Cifar:
      return AddResidualNet(named.resnet20_cifar(),
                            {.blocks = {3, 3, 3},
                             .classes = kDefaultClasses,
                             .width = 16,
                             .small_stem = true},
                            spec);
    case v1::NamedModel::kVitTiny:
      return AddVisionTransformer(named.vit_tiny(), spec);
    case v1::NamedModel::kGptTiny:
      return AddGpt(named.gpt_tiny(), spec);
    case v1::NamedModel::KIND_NOT_SET:
      break;
  }
  return Refuse("no name that this server knows");
}

// Returns the name as in job files, or "".
std::string NameOf(const v1::NamedModel& named) {
  if (named.kind_case() == v1::NamedModel::KIND_NOT_SET) return "";
  return absl::StrCat(
      " ", named.GetDescriptor()->FindFieldByNumber(named.kind_case())->name());
}

}  // namespace

absl::StatusOr<v1::ModelSpec> ExpandNamed(const v1::ModelSpec& spec) {
  if (!spec.has_named()) return spec;
  if (spec.layers_size() > 0) {
    return Refuse("a model is either layers or named; this one has both");
  }
  v1::ModelSpec expanded = spec;
  expanded.clear_named();
  const absl::Status added = AddLayers(spec.named(), expanded);
  if (added.ok()) return expanded;
  return Refuse("named", NameOf(spec.named()), ": ",
                std::string(added.message()));
}

}  // namespace gpupool::engine
