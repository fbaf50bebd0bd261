// Waste on traces of a transformer, compared with PyTorch's algorithm. Waste is
// the peak of reserved memory over the peak of live memory, minus one.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/allocator_invariants.h"
#include "tests/engine/memory/pytorch_allocator.h"
#include "tests/engine/memory/simulated_driver.h"
#include "tests/engine/memory/transformer_trace.h"

namespace gpupool::engine {
namespace {

struct Waste {
  double ours = 0;
  double peer = 0;
};

double WasteOf(uint64_t reserved, const std::vector<TraceEvent>& trace) {
  return static_cast<double>(reserved) / static_cast<double>(PeakBytes(trace)) -
         1;
}

double OurWaste(const std::vector<TraceEvent>& trace) {
  SimulatedDriver driver;
  CachingAllocator allocator("cuda:0", uint64_t{1} << 38, &driver);
  std::map<uint32_t, Allocation> live;
  for (const TraceEvent& event : trace) {
    if (event.bytes == 0) {
      live.erase(event.id);
      continue;
    }
    auto block = allocator.Allocate(event.bytes, {"job 1", "eager"});
    EXPECT_TRUE(block.ok()) << block.status();
    if (!block.ok()) return 1e9;
    live[event.id] = *std::move(block);
  }
  CheckInvariants(allocator, driver);
  return WasteOf(allocator.Statistics().peak_reserved_bytes, trace);
}

double PyTorchWaste(const std::vector<TraceEvent>& trace) {
  PyTorchAllocator allocator;
  std::map<uint32_t, uint64_t> live;
  for (const TraceEvent& event : trace) {
    if (event.bytes == 0) {
      allocator.Free(live[event.id]);
    } else {
      live[event.id] = allocator.Allocate(event.bytes);
    }
  }
  return WasteOf(allocator.peak_reserved_bytes(), trace);
}

Waste Replay(const char* name, const TraceOptions& options) {
  const std::vector<TraceEvent> trace = TransformerTrace(options);
  const Waste waste = {OurWaste(trace), PyTorchWaste(trace)};
  std::printf("%s, seed %u: waste %.2f %%, PyTorch's algorithm %.2f %%\n", name,
              options.seed, 100 * waste.ours, 100 * waste.peer);
  return waste;
}

TEST(TraceReplayTest, InferenceOfFixedShapeWastesNoMore) {
  const Waste waste = Replay("infer, fixed", {.rounds = 50, .seed = 1});
  EXPECT_LE(waste.ours, waste.peer);
}

TEST(TraceReplayTest, InferenceOfVariableShapesWastesAThirdAtMost) {
  for (const uint32_t seed : {1, 2}) {
    const Waste waste =
        Replay("infer, variable",
               {.variable_shapes = true, .rounds = 300, .seed = seed});
    EXPECT_LE(3 * waste.ours, waste.peer);
  }
}

TEST(TraceReplayTest, TrainingOfFixedShapeWastesNoMore) {
  const Waste waste =
      Replay("train, fixed", {.training = true, .rounds = 20, .seed = 1});
  EXPECT_LE(waste.ours, waste.peer);
}

TEST(TraceReplayTest, TrainingOfVariableShapesWastesAThirdAtMost) {
  for (const uint32_t seed : {1, 2}) {
    const Waste waste = Replay("train, variable", {.training = true,
                                                   .variable_shapes = true,
                                                   .rounds = 60,
                                                   .seed = seed});
    EXPECT_LE(3 * waste.ours, waste.peer);
  }
}

}  // namespace
}  // namespace gpupool::engine
