// Published models: their numbers of parameters, and that small models of the
// same kind learn.
#include <gtest/gtest.h>

#include <memory>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/memory/host_page_source.h"
#include "engine/model/model_programs.h"
#include "engine/serving/row_analysis.h"
#include "tests/engine/testing/gpt2.h"
#include "tests/engine/testing/graph_testing.h"
#include "tests/engine/testing/model_program.h"
#include "tests/engine/testing/resnet.h"

namespace gpupool::engine::testing {
namespace {

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

// Gradients of their branches are added while the graph of the step grows.
TEST_F(KnownModelsTest, HaveGradientsOfAllParameters) {
  v1::TrainingSpec training = TrainingFromText("cross_entropy {} sgd {}");
  training.mutable_sgd()->set_learning_rate(0.1);
  for (const uint32_t batch : {1u, 8u, 256u}) {
    training.set_batch_size(batch);
    for (const auto& source : {ResNet({}), Gpt2({})}) {
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

}  // namespace
}  // namespace gpupool::engine::testing
