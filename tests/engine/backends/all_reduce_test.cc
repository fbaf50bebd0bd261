#include "engine/backends/all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/portable_backend.h"
#include "engine/collective/gloo_collective.h"
#include "engine/graph/builder.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/runtime/executor.h"

namespace gpupool::engine {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Returns a graph with inputs a [3], b [2], c [5], and buckets {a, b} and {c},
// with one wait for each bucket or one for both.
Graph TwoBuckets(bool one_wait) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId a = *builder.Input("a", {DType::kFloat32, {3}});
  const ValueId b = *builder.Input("b", {DType::kFloat32, {2}});
  const ValueId c = *builder.Input("c", {DType::kFloat32, {5}});
  const AllReduceAttributes start{2, {}};
  const ValueId first = *builder.EmitOne(Op::kAllReduceStart, {a, b}, start);
  const ValueId second = *builder.EmitOne(Op::kAllReduceStart, {c}, start);
  ValueIds means;
  if (one_wait) {
    means = *builder.Emit(Op::kAllReduceWait, {second, first},
                          AllReduceAttributes{2, {{5}, {3}, {2}}});
    means = {means[1], means[2], means[0]};
  } else {
    means = *builder.Emit(Op::kAllReduceWait, {first},
                          AllReduceAttributes{2, {{3}, {2}}});
    means.push_back(*builder.EmitOne(Op::kAllReduceWait, {second},
                                     AllReduceAttributes{2, {{5}}}));
  }
  for (size_t i = 0; i < means.size(); ++i) {
    graph.AddOutput(std::string(1, "abc"[i]), means[i]);
  }
  return graph;
}

// A compiled graph with its memory.
class Runner {
 public:
  absl::Status Compile(Graph graph, Collective* collective) {
    auto program = Program::Compile(std::move(graph), &backend_,
                                    {.collective = collective});
    if (!program.ok()) return program.status();
    const Graph& compiled = program->graph();
    auto layout = WeightLayout::Create({&compiled});
    weights_ = std::make_unique<WeightStore>(
        *WeightStore::Create(*std::move(layout), "test", &allocator_));
    const uint64_t bytes = program->bytes().arena;
    arena_ = *allocator_.Allocate(bytes, {"test", "arena"});
    executor_ = *Executor::Create(*std::move(program), *weights_,
                                  {arena_.data(), bytes}, "test", &allocator_);
    return absl::OkStatus();
  }

  absl::Status Run() { return executor_->Run(); }
  void Set(const std::string& name, float value) {
    for (float& number :
         absl::MakeSpan(reinterpret_cast<float*>(executor_->input(name).data()),
                        executor_->input(name).size() / sizeof(float))) {
      number = value;
    }
  }
  std::vector<float> Get(const std::string& name) {
    const auto bytes = executor_->output(name);
    const auto* numbers = reinterpret_cast<const float*>(bytes.data());
    return {numbers, numbers + bytes.size() / sizeof(float)};
  }

 private:
  portable::PortableBackend backend_;
  HostPageSource source_;
  CachingAllocator allocator_{"cpu:0", uint64_t{1} << 28, &source_};
  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
};

class AllReduceTest : public ::testing::Test {
 protected:
  // Runs `body` on two ranks, as threads.
  void OnTwoRanks(const std::function<void(Collective&)>& body) {
    const std::string group = absl::StrCat("group-", ++groups_);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        const auto collective =
            ConnectGloo({.rank = rank, .size = 2, .group = group}, &store_);
        ASSERT_TRUE(collective.ok()) << collective.status();
        body(**collective);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  MemoryRendezvous store_;
  int groups_ = 0;
};

TEST_F(AllReduceTest, OutputsAreMeansInEveryRun) {
  for (const bool one_wait : {false, true}) {
    OnTwoRanks([&](Collective& collective) {
      Runner runner;
      const absl::Status compiled =
          runner.Compile(TwoBuckets(one_wait), &collective);
      ASSERT_TRUE(compiled.ok()) << compiled;
      const float rank = static_cast<float>(collective.rank());
      for (const float run : {1.0f, 2.0f, 3.0f}) {
        runner.Set("a", run + 2 * rank);
        runner.Set("b", 10 * run + 4 * rank);
        runner.Set("c", 100 * run + 6 * rank);
        const absl::Status status = runner.Run();
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_THAT(runner.Get("a"), Each(run + 1));
        EXPECT_THAT(runner.Get("b"), Each(10 * run + 2));
        EXPECT_THAT(runner.Get("c"), Each(100 * run + 3));
        // Other users may use the collective between runs.
        ASSERT_TRUE(collective.Barrier().ok());
      }
    });
  }
}

TEST_F(AllReduceTest, APlanDoesNotRun) {
  Runner runner;
  ASSERT_TRUE(runner.Compile(TwoBuckets(false), nullptr).ok());
  const absl::Status status = runner.Run();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(AllReduceTest, TheGroupMustHaveTheRanksOfTheGraph) {
  const auto alone =
      ConnectGloo({.rank = 0, .size = 1, .group = "one"}, &store_);
  ASSERT_TRUE(alone.ok());
  Runner runner;
  const absl::Status status = runner.Compile(TwoBuckets(false), alone->get());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 ranks"));
}

TEST_F(AllReduceTest, AWaitTakesWhatAStartMade) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat32, {3}});
  graph.AddOutput("y", *builder.EmitOne(Op::kAllReduceWait, {x},
                                        AllReduceAttributes{2, {{3}}}));
  Runner runner;
  const absl::Status status = runner.Compile(graph, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'x' is not the sum"));
}

}  // namespace
}  // namespace gpupool::engine
