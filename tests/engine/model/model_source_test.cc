#include "engine/model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "engine/base/sha256.h"
#include "engine/model/model_programs.h"
#include "tests/engine/scratch_folder.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/random_model.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

// Tokens of an input of whole numbers are below this.
constexpr double kTokens = 5;

// The weights of a model in the form that an export takes.
class Weights {
 public:
  Weights(const ModelGraph& model, uint64_t seed)
      : numbers_(RandomPersistents(model.graph, seed)) {
    for (const PersistentSpec& spec : model.persistents) {
      std::vector<float>& values = floats_.emplace_back();
      for (double number : numbers_.find(spec.name)->second) {
        values.push_back(static_cast<float>(number));
      }
      tensors_.push_back({spec.name,
                          spec.dtype,
                          spec.shape,
                          {reinterpret_cast<const std::byte*>(values.data()),
                           values.size() * sizeof(float)}});
    }
  }

  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  reference::NamedNumbers& numbers() { return numbers_; }

 private:
  reference::NamedNumbers numbers_;
  std::vector<std::vector<float>> floats_;
  std::vector<WeightTensor> tensors_;
};

class ModelSourceTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const ModelSource> Layers(const v1::ModelSpec& spec) {
    auto source = ModelSource::Open(spec, "");
    EXPECT_TRUE(source.ok()) << source.status();
    return *source;
  }

  absl::StatusOr<std::shared_ptr<const ModelSource>> OpenOnnx(
      const std::string& bytes) {
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
    spec.mutable_onnx()->set_bytes(bytes.size());
    std::ofstream(folder_.path() + "/" + spec.onnx().sha256(), std::ios::binary)
        << bytes;
    return ModelSource::Open(spec, folder_.path());
  }

  // Returns the first output for one seeded batch of 2.
  static reference::Numbers Answer(const ModelSource& source, bool scaling,
                                   reference::NamedNumbers state) {
    auto model = BuildInferenceGraph(source, scaling, 2);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    const ModelPort& input = model->inputs[0];
    reference::Numbers numbers = RandomNumbers(input.shape.elements(), 11);
    if (input.dtype == DType::kInt64) {
      for (double& x : numbers) x = std::floor((x + 1) / 2 * kTokens);
    }
    auto outputs = reference::Run(model->graph, {{input.name, numbers}}, state);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? (*outputs)[model->outputs[0].name]
                        : reference::Numbers();
  }

  // Returns the values of the source's own persistents.
  static reference::NamedNumbers Stored(const ModelSource& source) {
    reference::NamedNumbers numbers;
    auto model = source.Build({});
    EXPECT_TRUE(model.ok()) << model.status();
    for (const PersistentSpec& spec : model->persistents) {
      std::vector<float> values(static_cast<size_t>(spec.shape.elements()));
      EXPECT_EQ(spec.initializer.kind, Initializer::Kind::kStored) << spec.name;
      const absl::Status read = source.ReadStored(
          spec.name, {reinterpret_cast<std::byte*>(values.data()),
                      values.size() * sizeof(float)});
      EXPECT_TRUE(read.ok()) << read;
      numbers[spec.name] = {values.begin(), values.end()};
    }
    return numbers;
  }

  void ExpectSameAfterExport(const v1::ModelSpec& spec, bool scaling) {
    const auto source = Layers(spec);
    auto model = source->Build({.input_scaling = scaling});
    ASSERT_TRUE(model.ok()) << model.status();
    Weights weights(*model, 5);
    auto bytes = source->ExportOnnx(weights.tensors());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    auto imported = OpenOnnx(*bytes);
    ASSERT_TRUE(imported.ok()) << imported.status();
    const reference::Numbers ours = Answer(*source, scaling, weights.numbers());
    const reference::Numbers theirs =
        Answer(**imported, false, Stored(**imported));
    EXPECT_LT(Distance(theirs, ours), 1e-5);
  }

  const ScratchFolder folder_;
};

TEST_F(ModelSourceTest, LayersStoreNothing) {
  float value = 0;
  EXPECT_EQ(Layers(DigitsModel())
                ->ReadStored("dense_0.weight",
                             {reinterpret_cast<std::byte*>(&value), 4})
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ModelSourceTest, AModelIsLayersOrAFile) {
  v1::ModelSpec spec = DigitsModel();
  spec.mutable_onnx();
  EXPECT_THAT(ModelSource::Open(spec, "").status().message(),
              HasSubstr("has both"));
}

TEST_F(ModelSourceTest, ExportedLayersGiveTheSameResults) {
  ExpectSameAfterExport(DigitsModel(), false);
  ExpectSameAfterExport(DigitsModel(), true);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    ExpectSameAfterExport(RandomModel(seed), seed % 2 == 0);
  }
}

TEST_F(ModelSourceTest, EveryKindOfLayerIsExported) {
  ExpectSameAfterExport(
      ModelFromText(R"pb(
        input_shape: [ 4, 9, 7 ]
        layers {
          conv2d {
            filters: 6
            kernel: [ 3, 2 ]
            stride: [ 2, 1 ]
            padding: [ 1, 0 ]
            dilation: [ 1, 2 ]
            groups: 2
          }
        }
        layers { batch_norm { epsilon: 1e-3 } }
        layers { relu {} }
        layers { max_pool { kernel: 2 padding: 1 stride: 1 } }
        layers { avg_pool { kernel: 2 padding: 1 } }
        layers { avg_pool { kernel: 2 padding: 1 exclude_padding: true } }
        layers {
          name: "mark"
          gelu {}
        }
        layers { dropout { probability: 0.5 } }
        layers { gelu { tanh_approximation: true } }
        layers { add { from: "mark" } }
        layers { dense { units: 5 bias: false } }
        layers { dense { units: 4 } }
        layers { layer_norm {} }
        layers { global_avg_pool {} }
        layers { sigmoid {} }
        layers { tanh {} }
        layers { log_softmax {} }
        layers { dense { units: 3 bias: false } }
        layers { softmax {} }
      )pb"),
      true);
}

TEST_F(ModelSourceTest, EveryKindOfLayerOfImageTokensIsExported) {
  const v1::ModelSpec spec = ModelFromText(R"pb(
    input_shape: [ 3, 6, 4 ]
    layers { conv2d { filters: 8 kernel: 2 stride: 2 } }
    layers { image_tokens {} }
    layers { class_token {} }
    layers { positions {} }
    layers { dense { units: 24 } }
    layers { attention { heads: 2 } }
    layers {
      name: "seen"
      layer_norm {}
    }
    layers { pick_token { index: -2 } }
    layers {
      name: "one"
      dense { units: 3 }
    }
    layers {
      mean_tokens {}
      input: "seen"
    }
    layers { dense { units: 3 } }
    layers { add { from: "one" } }
  )pb");
  ExpectSameAfterExport(spec, false);
  ExpectSameAfterExport(spec, true);
}

TEST_F(ModelSourceTest, EveryKindOfLayerOfTokensIsExported) {
  ExpectSameAfterExport(ModelFromText(R"pb(
                          input_shape: [ 6 ]
                          layers {
                            name: "table"
                            embedding { entries: 5 width: 8 }
                          }
                          layers { positions { length: 9 } }
                          layers { dense { units: 24 } }
                          layers { attention { heads: 4 causal: true } }
                          layers { dense { units: 24 bias: false } }
                          layers { attention { heads: 1 causal: true } }
                          layers { dense { tied_to: "table" } }
                          layers { pick_token {} }
                          layers { dense { units: 8 } }
                          layers { dense { tied_to: "table" bias: true } }
                        )pb"),
                        false);
}

TEST_F(ModelSourceTest, NamedTransformersAreExported) {
  ExpectSameAfterExport(
      ModelFromText("named { vit_tiny { classes: 3 patch: 4 width: 8 depth: 2 "
                    "heads: 2 } } input_shape: [2, 8, 4]"),
      true);
  ExpectSameAfterExport(
      ModelFromText("named { gpt_tiny { vocabulary: 5 context: 6 width: 8 "
                    "depth: 2 heads: 2 dropout: 0.1 } } input_shape: 4"),
      false);
}

TEST_F(ModelSourceTest, ALayerReadsTheOneThatItNames) {
  const auto source = Layers(ModelFromText(R"pb(
    input_shape: [ 3 ]
    layers {
      name: "positive"
      relu {}
    }
    layers {
      name: "curve"
      tanh {}
      input: "input"
    }
    layers { add { from: "positive" } }
  )pb"));
  const reference::Numbers x = RandomNumbers(6, 11);
  const reference::Numbers y = Answer(*source, false, {});
  ASSERT_EQ(y.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::tanh(x[i]) + std::max(x[i], 0.0), 1e-9);
  }
}

TEST_F(ModelSourceTest, BranchesAreExported) {
  const v1::ModelSpec spec = ModelFromText(R"pb(
    input_shape: [ 2, 6, 6 ]
    layers {
      name: "stem"
      relu {}
    }
    layers { conv2d { filters: 4 kernel: 3 stride: 2 padding: 1 } }
    layers {
      name: "main"
      batch_norm {}
    }
    layers {
      name: "side"
      conv2d { filters: 4 kernel: 1 stride: 2 }
      input: "stem"
    }
    layers {
      name: "sum"
      add { from: "main" }
    }
    layers { flatten {} }
    layers {
      name: "wide"
      dense { units: 3 }
    }
    layers {
      name: "mean"
      global_avg_pool {}
      input: "sum"
    }
    layers { dense { units: 3 } }
    layers { add { from: "wide" } }
  )pb");
  ExpectSameAfterExport(spec, false);
  ExpectSameAfterExport(spec, true);
}

TEST_F(ModelSourceTest, AnOnnxFileIsExportedWithOtherWeights) {
  const auto layers = Layers(DigitsModel());
  auto model = layers->Build({});
  ASSERT_TRUE(model.ok());
  Weights first(*model, 5), second(*model, 6);
  auto onnx = OpenOnnx(*layers->ExportOnnx(first.tensors()));
  ASSERT_TRUE(onnx.ok()) << onnx.status();
  auto bytes = (*onnx)->ExportOnnx(second.tensors());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto again = OpenOnnx(*bytes);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(Distance(Answer(**again, false, Stored(**again)),
                     Answer(*layers, false, second.numbers())),
            1e-5);
  EXPECT_GT(Distance(Answer(**again, false, Stored(**again)),
                     Answer(*layers, false, first.numbers())),
            1e-3);
}

TEST_F(ModelSourceTest, ScalingBecomesNodesInFrontOfAnOnnxFile) {
  const auto layers = Layers(DigitsModel());
  auto plain = layers->Build({});
  auto scaled = layers->Build({.input_scaling = true});
  ASSERT_TRUE(plain.ok() && scaled.ok());
  auto onnx = OpenOnnx(*layers->ExportOnnx(Weights(*plain, 5).tensors()));
  ASSERT_TRUE(onnx.ok()) << onnx.status();
  Weights weights(*scaled, 6);
  auto again = OpenOnnx(*(*onnx)->ExportOnnx(weights.tensors()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(Distance(Answer(**again, false, Stored(**again)),
                     Answer(*layers, true, weights.numbers())),
            1e-5);
}

TEST_F(ModelSourceTest, AWeightOfAnotherShapeIsRefused) {
  const auto layers = Layers(DigitsModel());
  auto model = layers->Build({});
  ASSERT_TRUE(model.ok());
  Weights weights(*model, 5);
  auto onnx = OpenOnnx(*layers->ExportOnnx(weights.tensors()));
  ASSERT_TRUE(onnx.ok()) << onnx.status();
  std::vector<WeightTensor> tensors = weights.tensors();
  tensors[0].shape = {1, 2, 3};
  EXPECT_THAT((*onnx)->ExportOnnx(tensors).status().message(),
              HasSubstr(tensors[0].name));
  tensors.clear();
  EXPECT_THAT(layers->ExportOnnx(tensors).status().message(),
              HasSubstr("has no weight"));
}

}  // namespace
}  // namespace gpupool::engine
