#include "client/cli/jobs/compare_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gpupool::client {
namespace {

using nlohmann::json;

// Returns a run of batches of 30 rows that has ended.
PrecisionRun Ended(v1::Precision precision, v1::JobState state, double loss) {
  PrecisionRun run{.precision = precision};
  run.job.set_id(static_cast<uint64_t>(precision) + 10);
  run.job.set_state(state);
  run.job.set_device("cpu:0");
  run.job.add_devices("cpu:0");
  run.job.mutable_spec()->mutable_training()->set_batch_size(30);
  run.job.mutable_progress()->set_step(100);
  run.job.mutable_progress()->set_loss(loss);
  run.job.mutable_memory()->set_planned_peak_bytes(3 << 20);
  run.job.mutable_memory()->set_measured_peak_bytes(2 << 20);
  return run;
}

// Returns one run of each kind: refused, slow, failed and fast.
std::vector<PrecisionRun> Runs() {
  std::vector<PrecisionRun> runs;
  runs.push_back({.precision = v1::HIGH});
  runs.back().refusal = absl::InvalidArgumentError("cpu:0 has no TF32");
  runs.push_back(Ended(v1::HIGHEST, v1::SUCCEEDED, 0.5));
  runs.back().step_seconds = {0.002, 0.004, 0.003};
  runs.push_back(
      Ended(v1::FP16, v1::FAILED, std::numeric_limits<double>::quiet_NaN()));
  runs.back().job.mutable_progress()->set_skipped_steps(31);
  runs.back().job.mutable_error()->set_message("it left the range");
  runs.push_back(Ended(v1::BF16, v1::SUCCEEDED, 0.55));
  runs.back().step_seconds = {0.001};
  return runs;
}

std::string Print(const std::vector<PrecisionRun>& runs) {
  std::ostringstream out;
  CompareTable(runs).Print({.stream = &out}, true);
  return out.str();
}

TEST(CompareViewTest, RowsAreComparedWithTheFirstThatTrained) {
  EXPECT_EQ(Print(Runs()),
            "PRECISION\tSTATE\tSTEP MS\tSAMPLES/S\tSPEED\tPLANNED\tPEAK\tLOSS\t"
            "DIFFERENCE\tRELATIVE\tSKIPPED\tREASON\n"
            "tf32\tnot run\t-\t-\t-\t-\t-\t-\t-\t-\t-\tcpu:0 has no TF32\n"
            "float32\tsucceeded\t3.000\t10.0k\t1.00x\t3.0 MiB\t2.0 MiB\t0.5\t"
            "-\t-\t-\t-\n"
            "float16\tfailed\t-\t-\t-\t3.0 MiB\t2.0 MiB\tnan\t-\t-\t31\t"
            "it left the range\n"
            "bfloat16\tsucceeded\t1.000\t30.0k\t3.00x\t3.0 MiB\t2.0 MiB\t0.55\t"
            "+0.05\t+10%\t-\t-\n");
}

TEST(CompareViewTest, WithoutARunThatTrainedNothingIsCompared) {
  std::vector<PrecisionRun> runs = {Ended(v1::HIGHEST, v1::CANCELLED, 0.5)};
  EXPECT_EQ(BaseOf(runs), nullptr);
  EXPECT_THAT(Print(runs), ::testing::HasSubstr("float32\tcancelled\t-\t-\t-\t"
                                                "3.0 MiB\t2.0 MiB\t0.5\t-\t-"));
}

TEST(CompareViewTest, JsonHasEveryKeyForEveryRun) {
  const json rows = json::parse(CompareJson(Runs()));
  ASSERT_EQ(rows.size(), 4u);
  for (const json& row : rows) {
    EXPECT_EQ(row.size(), 15u) << row;
  }
  EXPECT_EQ(rows[0]["state"], "NOT_RUN");
  EXPECT_EQ(rows[0]["reason"], "cpu:0 has no TF32");
  EXPECT_TRUE(rows[0]["job_id"].is_null());
  EXPECT_TRUE(rows[0]["loss"].is_null());
  EXPECT_EQ(rows[1]["precision"], "float32");
  EXPECT_EQ(rows[1]["device"], "cpu:0");
  EXPECT_EQ(rows[1]["steps"], 100);
  EXPECT_EQ(rows[1]["speed"], 1.0);
  EXPECT_EQ(rows[1]["loss_difference"], 0.0);
  EXPECT_TRUE(rows[1]["skipped_steps"].is_null());
  EXPECT_EQ(rows[2]["state"], "FAILED");
  EXPECT_EQ(rows[2]["skipped_steps"], 31);
  EXPECT_TRUE(rows[2]["loss"].is_null()) << "JSON has no NaN";
  EXPECT_TRUE(rows[2]["loss_difference"].is_null());
  EXPECT_NEAR(rows[3]["median_step_ms"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(rows[3]["speed"].get<double>(), 3, 1e-9);
  EXPECT_NEAR(rows[3]["relative_loss_difference"].get<double>(), 0.1, 1e-9);
  EXPECT_EQ(rows[3]["planned_peak_bytes"], 3 << 20);
  EXPECT_EQ(rows[3]["measured_peak_bytes"], 2 << 20);
}

TEST(CompareViewTest, ALossOfZeroHasNoRelativeDifference) {
  std::vector<PrecisionRun> runs = {Ended(v1::HIGHEST, v1::SUCCEEDED, 0),
                                    Ended(v1::BF16, v1::SUCCEEDED, 0.25)};
  const json rows = json::parse(CompareJson(runs));
  EXPECT_EQ(rows[1]["loss_difference"], 0.25);
  EXPECT_TRUE(rows[1]["relative_loss_difference"].is_null());
}

}  // namespace
}  // namespace gpupool::client
