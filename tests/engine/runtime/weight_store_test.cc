#include "engine/runtime/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/graph/builder.h"
#include "engine/memory/host_page_source.h"
#include "engine/runtime/weight_view.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

Graph GraphWith(const std::string& name, const Shape& shape,
                MemoryClass memory_class) {
  Graph graph;
  GraphBuilder builder(&graph);
  EXPECT_TRUE(
      builder.Persistent(name, {DType::kFloat32, shape}, memory_class).ok());
  return graph;
}

TEST(WeightLayoutTest, SharesNamesBetweenProgramsAndSplitsTheOptimizer) {
  const Graph a = GraphWith("w", {10}, MemoryClass::kWeight);
  const Graph b = GraphWith("w/adam.m", {10}, MemoryClass::kOptimizer);
  const Graph c = GraphWith("mean", {3}, MemoryClass::kState);
  const auto layout = WeightLayout::Create({&a, &b, &a, &c});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->entries().size(), 3u);
  EXPECT_EQ(layout->bytes().model, 64u + 64);
  EXPECT_EQ(layout->bytes().optimizer, 64u);
  EXPECT_EQ(layout->Find("mean")->offset, 64u);
  EXPECT_EQ(layout->Find("nothing"), nullptr);
}

TEST(WeightLayoutTest, RefusesOneNameForTwoTypes) {
  const Graph a = GraphWith("w", {10}, MemoryClass::kWeight);
  const Graph b = GraphWith("w", {11}, MemoryClass::kWeight);
  const auto layout = WeightLayout::Create({&a, &b});
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(layout.status().message()),
              HasSubstr("weight \"w\" is float32[10] in one program and "
                        "float32[11] in another"));
}

TEST(WeightLayoutTest, RefusesSizesWhoseSumNoDeviceHas) {
  std::vector<Graph> graphs;
  std::vector<const Graph*> all;
  for (int i = 0; i < 1025; ++i) {
    graphs.push_back(GraphWith(absl::StrCat("w", i), {int64_t{1} << 48},
                               MemoryClass::kWeight));
  }
  for (const Graph& graph : graphs) all.push_back(&graph);
  const auto layout = WeightLayout::Create(all);
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(layout.status().message()),
              HasSubstr("weight \"w1024\" [281474976710656] needs "
                        "1125899906842624 bytes"));
  all.pop_back();
  EXPECT_TRUE(WeightLayout::Create(all).ok());
}

TEST(WeightStoreTest, IsZeroedLabelledAndExactlyAsLargeAsItsLayout) {
  const Graph a = GraphWith("w", {100}, MemoryClass::kWeight);
  const Graph b = GraphWith("v", {50}, MemoryClass::kOptimizer);
  HostPageSource source;
  CachingAllocator allocator("cpu:0", 1 << 20, &source);
  {  // leaves old bytes behind
    auto dirt = allocator.Allocate(4096, {"other", "weights"});
    std::memset(dirt->data(), 0xff, 4096);
  }
  const auto layout = WeightLayout::Create({&a, &b});
  auto store = WeightStore::Create(*layout, "job 7", &allocator);
  ASSERT_TRUE(store.ok());
  const auto view = WeightView::Read(*store);
  ASSERT_TRUE(view.ok());
  for (const std::byte byte : view->Find("w")) ASSERT_EQ(byte, std::byte(0));
  EXPECT_EQ(view->Find("w").size(), 400u);
  EXPECT_TRUE(view->Find("nothing").empty());
  const MemoryStatistics statistics = allocator.Statistics();
  EXPECT_EQ(statistics.allocated_bytes,
            layout->bytes().model + layout->bytes().optimizer);
  ASSERT_EQ(statistics.owners.size(), 2u);
  EXPECT_EQ(statistics.owners[0].label, "job 7 / weights");
  EXPECT_EQ(statistics.owners[1].label, "job 7 / optimizer");
}

TEST(WeightStoreTest, GivesEverythingBackWhenTheSecondBlockFails) {
  const Graph a = GraphWith("w", {100}, MemoryClass::kWeight);
  const Graph b = GraphWith("v", {100}, MemoryClass::kOptimizer);
  HostPageSource source;
  CachingAllocator allocator("cpu:0", 640, &source);
  const auto layout = WeightLayout::Create({&a, &b});
  EXPECT_EQ(WeightStore::Create(*layout, "job 7", &allocator).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(allocator.Statistics().allocated_bytes, 0u);
}

}  // namespace
}  // namespace gpupool::engine
