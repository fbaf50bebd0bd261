#include "engine/train/checkpoint_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/builder.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class CheckpointTensorsTest : public RunFixture {
 protected:
  // A weight with average, momentum and accumulated gradient, a frozen weight,
  // and running statistics.
  void SetUp() override {
    GraphBuilder builder(&graph_);
    const TensorType type = {DType::kFloat32, {2}};
    const auto add = [&](const char* name, MemoryClass memory_class) {
      ASSERT_TRUE(builder.Persistent(name, type, memory_class).ok());
    };
    add("w", MemoryClass::kWeight);
    add("frozen", MemoryClass::kWeight);
    add("running_mean", MemoryClass::kState);
    add("w/momentum", MemoryClass::kOptimizer);
    add("w/ema", MemoryClass::kOptimizer);
    add("w/grad", MemoryClass::kOptimizer);
    auto layout = WeightLayout::Create({&graph_});
    ASSERT_TRUE(layout.ok()) << layout.status();
    auto store = WeightStore::Create(*layout, "test", &allocator_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_.emplace(*std::move(store));
  }

  // Returns a view of the store's own memory, which the host can reach.
  WeightView View() { return *WeightView::Read(*store_); }

  static std::vector<std::string> Names(
      const std::vector<TensorBytes>& tensors) {
    std::vector<std::string> names;
    for (const TensorBytes& tensor : tensors) {
      names.push_back(tensor.facts.name);
    }
    return names;
  }

  Graph graph_;
  std::optional<WeightStore> store_;
};

TEST_F(CheckpointTensorsTest, EveryTensorButGradientsIsInOneOfTheFiles) {
  EXPECT_THAT(Names(ModelTensors(View())),
              ElementsAre("w", "frozen", "running_mean"));
  EXPECT_THAT(Names(OptimizerTensors(View())), ElementsAre("w", "w/momentum"));
}

TEST_F(CheckpointTensorsTest, WhatIsServedAreTheAverages) {
  EXPECT_EQ(ModelTensors(View())[0].bytes.data(), View().Find("w/ema").data());
  EXPECT_EQ(OptimizerTensors(View())[0].bytes.data(), View().Find("w").data());
  EXPECT_EQ(ModelTensors(View())[1].bytes.data(), View().Find("frozen").data());
}

TEST_F(CheckpointTensorsTest, AveragesStartAsTheWeights) {
  const float numbers[] = {3, 4};
  std::memcpy(View().Find("w").data(), numbers, sizeof(numbers));
  ASSERT_TRUE(StartAverages(*store_).ok());
  EXPECT_EQ(std::memcmp(View().Find("w/ema").data(), numbers, sizeof(numbers)),
            0);
}

}  // namespace
}  // namespace gpupool::engine
