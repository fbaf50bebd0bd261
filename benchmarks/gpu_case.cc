#include "benchmarks/gpu_case.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "tests/engine/testing/gpt2.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/resnet.h"

namespace gpupool::engine::testing {
namespace {

constexpr char kMlp[] = R"pb(
  input_shape: [ 784 ]
  layers { dense { units: 128 } }
  layers { relu {} }
  layers { dense { units: 10 } }
)pb";

constexpr char kCnn[] = R"pb(
  input_shape: [ 1, 28, 28 ]
  layers { conv2d { filters: 32 kernel: 3 padding: 1 } }
  layers { batch_norm {} }
  layers { relu {} }
  layers { max_pool { kernel: 2 } }
  layers { conv2d { filters: 64 kernel: 3 padding: 1 } }
  layers { batch_norm {} }
  layers { relu {} }
  layers { max_pool { kernel: 2 } }
  layers { flatten {} }
  layers { dense { units: 10 } }
)pb";

// The same models and optimizers as in benchmarks/peers/gpu_peer.py.
struct Model {
  std::shared_ptr<const ModelSource> (*open)();
  int64_t classes = 10;
  v1::Precision precision = v1::HIGH;
  const char* training = "cross_entropy {} adam { learning_rate: 0.001 }";
};

std::shared_ptr<const ModelSource> OfLayers(const char* layers) {
  return *ModelSource::Open(ModelFromText(layers), "");
}

const std::map<std::string, Model>& Models() {
  static const auto* const models = new std::map<std::string, Model>{
      {"mlp", {[] { return OfLayers(kMlp); }}},
      {"cnn", {[] { return OfLayers(kCnn); }}},
      {"resnet50",
       {[] { return ResNet({}); }, 1000, v1::BF16,
        "cross_entropy {} sgd { learning_rate: 0.001 momentum: 0.9 }"}},
      {"gpt2",
       {[] { return Gpt2({}); }, Gpt2Sizes().vocabulary, v1::BF16,
        "cross_entropy {} adamw { learning_rate: 0.0001 }"}},
      // Small models of the same kind, to try the benchmark out.
      {"tiny-resnet",
       {[] { return ResNet(TinyResNet()); }, 10, v1::BF16,
        "cross_entropy {} sgd { learning_rate: 0.001 momentum: 0.9 }"}},
      {"tiny-gpt2",
       {[] { return Gpt2(kTinyGpt2); }, kTinyGpt2.vocabulary, v1::BF16,
        "cross_entropy {} adamw { learning_rate: 0.0001 }"}},
  };
  return *models;
}

}  // namespace

absl::StatusOr<GpuCase> FindGpuCase(const std::string& name, int64_t batch) {
  absl::string_view model = name;
  const bool training = absl::ConsumePrefix(&model, "train-");
  if (!training) absl::ConsumePrefix(&model, "infer-");
  const auto found = Models().find(std::string(model));
  if (found == Models().end() || model == name) {
    return absl::NotFoundError(absl::StrCat("there is no case \"", name, "\""));
  }
  GpuCase made{.source = found->second.open(),
               .batch = batch,
               .classes = found->second.classes,
               .training = training,
               .precision = found->second.precision,
               .step = TrainingFromText(found->second.training)};
  made.step.set_batch_size(static_cast<uint32_t>(batch));
  made.step.set_precision(made.precision);
  return made;
}

absl::StatusOr<std::unique_ptr<ModelProgram>> CompileCase(
    const GpuCase& gpu_case, const ProgramDevice& device) {
  if (gpu_case.training) {
    return ModelProgram::ForTraining(gpu_case.source, gpu_case.step, device);
  }
  return ModelProgram::ForInference(gpu_case.source, gpu_case.batch, device,
                                    gpu_case.precision);
}

}  // namespace gpupool::engine::testing
