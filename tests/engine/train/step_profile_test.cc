#include "engine/train/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/train/blob_file.h"
#include "engine/train/training_run.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class StepProfileTest : public RunFixture {
 protected:
  std::unique_ptr<TrainingRun> Start(uint32_t accumulate = 1) {
    std::string rows;
    for (int i = 0; i < 50; ++i) {
      rows += absl::StrCat(i % 7, ",", i % 5, ",", i % 3, "\n");
    }
    TrainingRequest request;
    request.job_id = 3;
    request.dataset = StoreCsv(rows);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "model { input_shape: 2 layers { dense { units: 4 } } "
        "        layers { dense { units: 1 } } } "
        "data {} "
        "training { mean_squared_error {} adam {} batch_size: 5 steps: 20 }",
        &request.spec));
    request.spec.mutable_training()->set_accumulate_batches(accumulate);
    auto run = TrainingRun::Create(Device(), request);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  static void Steps(TrainingRun& run, int steps) {
    for (int i = 0; i < steps; ++i) {
      const absl::Status status = run.Step();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // Returns the events of the trace that the run has stored.
  nlohmann::json Take(TrainingRun& run) {
    const auto stored = run.TakeProfile();
    EXPECT_TRUE(stored.ok()) << stored.status();
    const auto file = ReadBlob(blob_dir_, stored->sha256);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->bytes().size(), stored->bytes);
    return nlohmann::json::parse(file->bytes().begin(),
                                 file->bytes().end())["traceEvents"];
  }
};

TEST_F(StepProfileTest, ATraceHasEveryNodeOfTheStepsThatWereMade) {
  auto run = Start();
  Steps(*run, 2);
  ASSERT_TRUE(run->StartProfile(3).ok());
  Steps(*run, 3);
  const nlohmann::json events = Take(*run);
  std::set<int> runs;
  std::map<int, int> nodes;
  double last = 0;
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    runs.insert(event["args"]["run"].get<int>());
    ++nodes[event["args"]["node"].get<int>()];
    EXPECT_NE(event["name"], "");
    EXPECT_GE(event["ts"].get<double>(), last) << "one node after the other";
    last = event["ts"].get<double>();
  }
  EXPECT_EQ(runs, (std::set<int>{0, 1, 2}));
  EXPECT_GT(nodes.size(), 5u);
  for (const auto& [node, times] : nodes) EXPECT_EQ(times, 3) << node;
  // The next steps are not profiled.
  Steps(*run, 1);
  EXPECT_EQ(run->step(), 6u);
}

TEST_F(StepProfileTest, StepsThatAreTimedHaveTheSameResults) {
  auto plain = Start();
  Steps(*plain, 6);
  const auto expected = plain->SaveCheckpoint();
  plain.reset();
  auto run = Start();
  Steps(*run, 2);
  ASSERT_TRUE(run->StartProfile(100).ok());
  Steps(*run, 2);
  Take(*run);
  Steps(*run, 2);
  const auto saved = run->SaveCheckpoint();
  ASSERT_TRUE(expected.ok() && saved.ok());
  EXPECT_EQ(saved->manifest_sha256(), expected->manifest_sha256());
}

TEST_F(StepProfileTest, ALaterStartForgetsWhatWasTimed) {
  auto run = Start();
  ASSERT_TRUE(run->StartProfile(1).ok());
  Steps(*run, 3);
  ASSERT_TRUE(run->StartProfile(2).ok());
  Steps(*run, 2);
  std::set<int> runs;
  for (const auto& event : Take(*run)) {
    if (event["ph"] == "X") runs.insert(event["args"]["run"].get<int>());
  }
  EXPECT_EQ(runs, (std::set<int>{0, 1}));
}

TEST_F(StepProfileTest, BatchesThatAreAccumulatedAreAThreadOfTheirOwn) {
  auto run = Start(/*accumulate=*/3);
  ASSERT_TRUE(run->StartProfile(2).ok());
  Steps(*run, 2);
  const nlohmann::json events = Take(*run);
  std::map<int, std::set<int>> runs;  // by thread
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    runs[event["tid"].get<int>()].insert(event["args"]["run"].get<int>());
  }
  EXPECT_EQ(runs[0].size(), 2u);
  EXPECT_EQ(runs[1].size(), 4u);
  EXPECT_EQ(events[0]["args"]["name"], "step");
}

TEST_F(StepProfileTest, MemoryAlongTheStepHasThePeakOfThePlan) {
  auto run = Start(/*accumulate=*/3);
  ASSERT_TRUE(run->StartProfile(2).ok());
  Steps(*run, 2);
  std::map<int, uint64_t> planned, peaks;  // by thread
  uint64_t planned_peak = 0, measured = 0;
  for (const auto& event : Take(*run)) {
    const nlohmann::json& args = event["args"];
    const int thread = event["tid"].get<int>();
    if (event["name"] == "planned bytes") {
      planned[thread] =
          std::max(planned[thread], args["value"].get<uint64_t>());
    } else if (event["name"] == "measured bytes") {
      measured = std::max(measured, args["value"].get<uint64_t>());
    } else if (event["name"] == "planned peak") {
      peaks[thread] = args["bytes"].get<uint64_t>();
      planned_peak =
          args["arena"].get<uint64_t>() + args["outside"].get<uint64_t>();
      EXPECT_FALSE(args["values"].empty());
    }
  }
  EXPECT_EQ(planned.size(), 2u);
  EXPECT_EQ(planned, peaks);
  const v1::MemoryUse use = run->memory();
  EXPECT_EQ(planned_peak, use.planned_peak_bytes());
  for (const auto& [thread, bytes] : planned) EXPECT_LE(bytes, planned_peak);
  EXPECT_GE(measured, planned[0]);
  EXPECT_LE(measured, use.measured_peak_bytes());
  EXPECT_LE(measured, allocator_.Statistics().reserved_bytes);
}

TEST_F(StepProfileTest, ATraceIsBoundedAndTheTextSaysHowManyStepsFit) {
  auto run = Start();
  const absl::Status status = run->StartProfile(1'000'000);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 200000"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("steps or fewer"));
  Steps(*run, 1);  // the profile did not begin
}

}  // namespace
}  // namespace gpupool::engine
