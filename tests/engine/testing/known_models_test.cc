// Published models: their numbers of parameters, and that small models of the
// same kind learn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/sha256.h"
#include "engine/data/synthetic/synthetic_rows.h"
#include "engine/memory/host_page_source.h"
#include "engine/model/model_programs.h"
#include "engine/serving/row_analysis.h"
#include "gpupool/v1/dataset.pb.h"
#include "tests/engine/scratch_folder.h"
#include "tests/engine/testing/gpt2.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/model_program.h"
#include "tests/engine/testing/resnet.h"

namespace gpupool::engine::testing {
namespace {

using NamedSource = std::shared_ptr<const ModelSource>;

constexpr char kTinyVit[] =
    "named { vit_tiny { classes: 4 patch: 4 width: 32 depth: 2 heads: 4 } } "
    "input_shape: [1, 16, 16]";
constexpr char kTinyGpt[] =
    "named { gpt_tiny { vocabulary: 8 context: 16 width: 32 depth: 1 heads: 4 "
    "} }";
constexpr int64_t kTinyVocabulary = 8;
constexpr int64_t kTinyContext = 16;

NamedSource Named(const std::string& text) {
  auto source = ModelSource::Open(ModelFromText(text), "");
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

// Returns the source of the model's export, with the same number for all
// weights.
NamedSource Exported(const ModelSource& source, const std::string& folder) {
  const auto model = source.Build({});
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<std::vector<float>> numbers;
  std::vector<WeightTensor> weights;
  for (const PersistentSpec& spec : model->persistents) {
    const auto count = static_cast<size_t>(spec.shape.elements());
    const std::vector<float>& own = numbers.emplace_back(count, 0.5F);
    weights.push_back({spec.name,
                       spec.dtype,
                       spec.shape,
                       {reinterpret_cast<const std::byte*>(own.data()),
                        count * sizeof(float)}});
  }
  const auto bytes = source.ExportOnnx(weights);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  v1::ModelSpec spec;
  spec.mutable_onnx()->set_sha256(Sha256Hex(*bytes));
  spec.mutable_onnx()->set_bytes(bytes->size());
  std::ofstream(folder + "/" + spec.onnx().sha256(), std::ios::binary)
      << *bytes;
  auto opened = ModelSource::Open(spec, folder);
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

class KnownModelsTest : public ::testing::Test {
 protected:
  static uint64_t Parameters(const ModelSource& source) {
    const auto model = BuildInferenceGraph(source, false, 1);
    EXPECT_TRUE(model.ok()) << model.status();
    return model->parameters();
  }

  // Trains on one batch and returns the first and the last loss.
  std::pair<float, float> Learn(std::shared_ptr<const ModelSource> source,
                                const std::string& training, int64_t classes) {
    auto program =
        ModelProgram::ForTraining(std::move(source), TrainingFromText(training),
                                  {&backend_, &allocator_});
    EXPECT_TRUE(program.ok()) << program.status();
    const absl::Status loaded = (*program)->Load();
    EXPECT_TRUE(loaded.ok()) << loaded;
    float first = 0, last = 0;
    for (int step = 1; step <= 40; ++step) {
      (*program)->FillInputs(1, classes);
      const absl::Status run = (*program)->Run();
      EXPECT_TRUE(run.ok()) << run;
      last = (*program)->Output("loss")[0];
      if (step == 1) first = last;
    }
    return {first, last};
  }

  HostPageSource pages_;
  CachingAllocator allocator_{"cpu:0", uint64_t{1} << 30, &pages_};
  CpuBackend backend_{1};
};

TEST_F(KnownModelsTest, HaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(Parameters(*ResNet({})), 25'557'032u);
  EXPECT_EQ(Parameters(*Gpt2({})), 124'439'808u);
}

// Requests to them share batches.
TEST_F(KnownModelsTest, KeepTheRowsOfABatchApart) {
  RowAnalysis digits, resnet, gpt2;
  for (const int64_t batch : {2, 3, 32}) {
    const auto layers = BuildInferenceGraph(DigitsModel(), true, batch);
    const auto images = BuildInferenceGraph(*ResNet({}), true, batch);
    const auto tokens = BuildInferenceGraph(*Gpt2({}), false, batch);
    ASSERT_TRUE(layers.ok() && images.ok() && tokens.ok());
    digits.Add(*layers, batch, {});
    resnet.Add(*images, batch, {});
    gpt2.Add(*tokens, batch, {});
  }
  EXPECT_EQ(digits.obstacle().value_or(""), "");
  EXPECT_EQ(resnet.obstacle().value_or(""), "");
  EXPECT_EQ(gpt2.obstacle().value_or(""), "");
}

TEST_F(KnownModelsTest, KeepTheRowsOfTransformersApartAlsoAfterExport) {
  const ScratchFolder folder;
  for (const char* text : {kTinyVit, kTinyGpt}) {
    const NamedSource layers = Named(text);
    for (const NamedSource& source :
         {layers, Exported(*layers, folder.path())}) {
      RowAnalysis rows;
      for (const int64_t batch : {2, 3, 32}) {
        const auto model = BuildInferenceGraph(*source, false, batch);
        ASSERT_TRUE(model.ok()) << model.status();
        rows.Add(*model, batch, {});
      }
      EXPECT_EQ(rows.obstacle().value_or(""), "") << text;
    }
  }
}

// Exports are then served by the same kernels.
TEST_F(KnownModelsTest, AttentionIsRecognisedAfterExport) {
  const ScratchFolder folder;
  struct Case {
    const char* text;
    int blocks;
    bool causal;
  };
  for (const Case& one : {Case{kTinyVit, 2, false}, Case{kTinyGpt, 1, true}}) {
    SCOPED_TRACE(one.text);
    const auto program = ModelProgram::ForInference(
        Exported(*Named(one.text), folder.path()), 2, {&backend_, &allocator_});
    ASSERT_TRUE(program.ok()) << program.status();
    int found = 0;
    for (const Node& node : (*program)->program().graph().nodes()) {
      if (node.op != Op::kAttention) continue;
      ++found;
      EXPECT_EQ(node.get<AttentionAttributes>().causal, one.causal);
    }
    EXPECT_EQ(found, one.blocks);
  }
}

// Gradients of their branches are added while the graph of the step grows.
TEST_F(KnownModelsTest, HaveGradientsOfAllParameters) {
  v1::TrainingSpec training = TrainingFromText("cross_entropy {} sgd {}");
  training.mutable_sgd()->set_learning_rate(0.1);
  for (const uint32_t batch : {1u, 8u, 256u}) {
    training.set_batch_size(batch);
    for (const auto& source :
         {ResNet({}), Gpt2({}), Named(kTinyVit), Named(kTinyGpt)}) {
      const auto step = BuildTrainingGraph(*source, {}, training);
      ASSERT_TRUE(step.ok()) << step.status();
    }
  }
}

TEST_F(KnownModelsTest, ASmallResNetLearns) {
  for (const char* precision : {"HIGHEST", "BF16"}) {
    SCOPED_TRACE(precision);
    const auto [first, last] =
        Learn(ResNet(TinyResNet()),
              std::string("cross_entropy {} sgd { learning_rate: 0.05 "
                          "momentum: 0.9 } batch_size: 8 precision: ") +
                  precision,
              10);
    EXPECT_LT(last, 0.6 * first);
  }
}

TEST_F(KnownModelsTest, ASmallGpt2Learns) {
  for (const char* precision : {"HIGHEST", "BF16"}) {
    SCOPED_TRACE(precision);
    const auto [first, last] =
        Learn(Gpt2(kTinyGpt2),
              std::string("cross_entropy {} adamw { learning_rate: 0.01 } "
                          "batch_size: 4 precision: ") +
                  precision,
              kTinyGpt2.vocabulary);
    EXPECT_LT(last, 0.6 * first);
  }
}

TEST_F(KnownModelsTest, ASmallVisionTransformerLearnsShapes) {
  constexpr int kSteps = 100;
  v1::SyntheticData data;
  data.set_kind(v1::SyntheticData::SHAPES);
  data.set_seed(1);
  const auto rows =
      MakeSyntheticRows(data, {.rows = 16, .classes = 4, .shape = {1, 16, 16}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::vector<int64_t> labels(rows->labels.begin(), rows->labels.end());
  for (const char* precision : {"HIGHEST", "BF16"}) {
    SCOPED_TRACE(precision);
    const auto program = ModelProgram::ForTraining(
        Named(kTinyVit),
        TrainingFromText(std::string("cross_entropy {} adamw { learning_rate: "
                                     "0.01 } batch_size: 16 precision: ") +
                         precision),
        {&backend_, &allocator_});
    ASSERT_TRUE(program.ok()) << program.status();
    ASSERT_TRUE((*program)->Load().ok());
    float first = 0, last = 0;
    for (int step = 1; step <= kSteps; ++step) {
      (*program)->FillInputs(step, 4);
      (*program)->SetInput("input", absl::MakeConstSpan(rows->features));
      (*program)->SetInput("labels", absl::MakeConstSpan(labels));
      (*program)->SetInput("learning_rate", 0.003);
      ASSERT_TRUE((*program)->Run().ok());
      last = (*program)->Output("loss")[0];
      if (step == 1) first = last;
    }
    EXPECT_LT(last, 0.5 * first);
  }
}

// A token alone does not say which one follows: 0 has two successors. Whoever
// looks at no other token has a loss of at least ln(2) / 3 = 0.23.
TEST_F(KnownModelsTest, ASmallGptLearnsARepeatingSequence) {
  constexpr int64_t kCycle[] = {0, 1, 2, 0, 3, 4};
  constexpr int64_t kRows = 4;
  constexpr int kSteps = 150;
  std::vector<int64_t> tokens, labels;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = row; i < row + kTinyContext; ++i) {
      tokens.push_back(kCycle[i % 6]);
      labels.push_back(kCycle[(i + 1) % 6]);
    }
  }
  const auto program = ModelProgram::ForTraining(
      Named(kTinyGpt),
      TrainingFromText("cross_entropy {} adamw { learning_rate: 0.01 } "
                       "batch_size: 4"),
      {&backend_, &allocator_});
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE((*program)->Load().ok());
  for (int step = 1; step <= kSteps; ++step) {
    (*program)->FillInputs(step, kTinyVocabulary);
    (*program)->SetInput("input", absl::MakeConstSpan(tokens));
    (*program)->SetInput("labels", absl::MakeConstSpan(labels));
    ASSERT_TRUE((*program)->Run().ok());
  }
  EXPECT_LT((*program)->Output("loss")[0], 0.1);
}

TEST_F(KnownModelsTest, AGptSeesNoLaterTokens) {
  constexpr int64_t kChanged = 9;
  const auto program =
      ModelProgram::ForInference(Named(kTinyGpt), 1, {&backend_, &allocator_});
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE((*program)->Load().ok());
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < kTinyContext; ++i) {
    tokens.push_back(i * i % kTinyVocabulary);
  }
  const auto answer = [&] {
    (*program)->SetInput("input", absl::MakeConstSpan(tokens));
    EXPECT_TRUE((*program)->Run().ok());
    const absl::Span<const float> scores = (*program)->Output("output");
    return std::vector<float>(scores.begin(), scores.end());
  };
  const std::vector<float> before = answer();
  tokens[kChanged] = (tokens[kChanged] + 1) % kTinyVocabulary;
  const std::vector<float> after = answer();
  ASSERT_EQ(before.size(), static_cast<size_t>(kTinyContext * kTinyVocabulary));
  for (int64_t token = 0; token < kTinyContext; ++token) {
    float change = 0;
    for (int64_t i = 0; i < kTinyVocabulary; ++i) {
      const auto at = static_cast<size_t>(token * kTinyVocabulary + i);
      change = std::max(change, std::abs(before[at] - after[at]));
    }
    if (token < kChanged) {
      EXPECT_LT(change, 1e-6) << token;
    } else {
      EXPECT_GT(change, 0) << token;
    }
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
