#include "client/cli/jobs/precision_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

TEST(ShortJobTest, ChangesOnlyWhatAShortRunNeeds) {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.set_queue("fast");
  spec.set_hold(true);
  spec.set_expected_run_seconds(3600);
  spec.mutable_publish()->set_on_success(true);
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_batch_size(32);
  training.set_epochs(20);
  training.set_seed(7);
  training.set_precision(v1::BF16);
  training.set_evaluate_every_epochs(1);
  training.set_checkpoint_every_steps(10);
  training.mutable_early_stopping()->set_patience(1);
  const v1::JobSpec job = ShortJob(spec, v1::HIGH, 40);

  v1::JobSpec expected = spec;
  expected.set_name("digits-tf32");
  expected.clear_hold();
  expected.clear_expected_run_seconds();
  expected.clear_publish();
  v1::TrainingSpec& shortened = *expected.mutable_training();
  shortened.set_steps(40);
  shortened.set_precision(v1::HIGH);
  shortened.set_report_every_steps(1);
  shortened.clear_evaluate_every_epochs();
  shortened.clear_checkpoint_every_steps();
  shortened.clear_early_stopping();
  EXPECT_EQ(job.DebugString(), expected.DebugString());
}

TEST(ShortJobTest, AsksForAtMostAHundredReports) {
  const struct {
    uint64_t steps, every;
  } cases[] = {{1, 1}, {100, 1}, {101, 2}, {1000, 10}};
  for (const auto& [steps, every] : cases) {
    EXPECT_EQ(ShortJob({}, v1::HIGHEST, steps).training().report_every_steps(),
              every)
        << steps;
  }
}

TEST(ShortJobTest, OnlyFloat16KeepsTheScalingOfTheLoss) {
  v1::JobSpec spec;
  spec.mutable_training()->mutable_loss_scaling()->set_initial(8);
  EXPECT_EQ(ShortJob(spec, v1::FP16, 10).training().loss_scaling().initial(),
            8);
  EXPECT_FALSE(ShortJob(spec, v1::BF16, 10).training().has_loss_scaling());
}

TEST(ShortJobTest, ALongNameStaysWithinTheLimit) {
  v1::JobSpec spec;
  spec.set_name(std::string(128, 'x'));
  const std::string name = ShortJob(spec, v1::BF16, 10).name();
  EXPECT_EQ(name.size(), 128u);
  EXPECT_THAT(name, ::testing::EndsWith("xx-bfloat16"));
  EXPECT_EQ(ShortJob({}, v1::BF16, 10).name(), "compare-bfloat16");
}

// Returns the schedule of a job whose warm-up takes `warmup` steps.
v1::LearningRateSchedule Shortened(uint64_t warmup, uint64_t steps) {
  v1::JobSpec spec;
  v1::LearningRateSchedule& schedule =
      *spec.mutable_training()->mutable_schedule();
  schedule.set_warmup_steps(warmup);
  schedule.mutable_cosine();
  return ShortJob(spec, v1::HIGHEST, steps).training().schedule();
}

TEST(ShortJobTest, AWarmupThatIsNotOverKeepsItsBeginning) {
  EXPECT_EQ(Shortened(9, 10).warmup_steps(), 9u);
  EXPECT_TRUE(Shortened(9, 10).has_cosine());
  // The rates of a warm-up of 50 steps: 1/50, 2/50, 3/50 ... of the base.
  const v1::LearningRateSchedule schedule = Shortened(50, 10);
  EXPECT_EQ(schedule.warmup_steps(), 0u);
  const v1::LearningRateSchedule::Linear& linear = schedule.linear();
  for (const int step : {0, 1, 9}) {
    const double done = step / static_cast<double>(linear.steps());
    EXPECT_NEAR(linear.start_factor() +
                    (linear.end_factor() - linear.start_factor()) * done,
                (step + 1) / 50.0, 1e-12);
  }
  // The only step of a warm-up of one step has the base rate.
  EXPECT_EQ(Shortened(1, 1).rule_case(),
            v1::LearningRateSchedule::RULE_NOT_SET);
}

TEST(RunWhereTest, OneDeviceIsNamed) {
  v1::Job job;
  v1::JobSpec spec;
  spec.set_device("any");
  spec.set_max_devices(4);
  RunWhere(job, spec);
  EXPECT_EQ(spec.device(), "any") << "the job never started";
  EXPECT_EQ(spec.max_devices(), 4u);
  job.set_device("cpu:1");
  job.add_devices("cpu:1");
  RunWhere(job, spec);
  EXPECT_EQ(spec.device(), "cpu:1");
  EXPECT_EQ(spec.devices(), 0u);
  EXPECT_EQ(spec.max_devices(), 0u);
}

TEST(RunWhereTest, SeveralDevicesAreAsManyOfTheirKind) {
  v1::Job job;
  job.set_device("cuda:1");
  job.add_devices("cuda:1");
  job.add_devices("cuda:3");
  v1::JobSpec spec;
  spec.set_min_devices(1);
  spec.set_max_devices(4);
  RunWhere(job, spec);
  EXPECT_EQ(spec.device(), "cuda");
  EXPECT_EQ(spec.devices(), 2u);
  EXPECT_EQ(spec.min_devices(), 0u);
  EXPECT_EQ(spec.max_devices(), 0u);
}

class WhyNotTest : public ::testing::Test {
 protected:
  void AddDevice(const std::string& name, const std::string& capability = "") {
    v1::Device& device = *pool_.add_devices();
    device.set_name(name);
    device.set_kind(name.substr(0, name.find(':')));
    device.mutable_gpu()->set_compute_capability(capability);
  }

  std::string Why(const std::string& device,
                  v1::Precision precision = v1::HIGH) const {
    v1::JobSpec spec;
    spec.set_device(device);
    return WhyNot(precision, spec, pool_);
  }

  v1::ListDevicesResponse pool_;
};

TEST_F(WhyNotTest, ProcessorsHaveNoTf32) {
  AddDevice("cpu:0");
  AddDevice("cpu:1");
  for (const char* device : {"", "any", "cpu", "cpu:0"}) {
    EXPECT_EQ(Why(device), "cpu:0 has no TF32, so this would be float32 again");
  }
  EXPECT_THAT(Why("cpu:1"), HasSubstr("cpu:1"));
  for (const v1::Precision other : {v1::HIGHEST, v1::BF16, v1::FP16}) {
    EXPECT_EQ(Why("cpu:0", other), "");
  }
  // The server says what is wrong with an unknown device.
  EXPECT_EQ(Why("cuda:7"), "");
}

TEST_F(WhyNotTest, GpusSinceAmpereHaveTf32) {
  AddDevice("cpu:0");
  AddDevice("cuda:0", "7.5");
  EXPECT_EQ(Why(""),
            "cuda:0 (compute capability 7.5) has no TF32, so this would be "
            "float32 again");
  EXPECT_THAT(Why("cpu"), HasSubstr("cpu:0"));
  AddDevice("cuda:1", "10.0");
  AddDevice("cuda:2", "8.0");
  AddDevice("cuda:3", "unknown");
  for (const char* device : {"", "any", "cuda", "cuda:1", "cuda:2", "cuda:3"}) {
    EXPECT_EQ(Why(device), "") << device;
  }
  EXPECT_THAT(Why("cuda:0"), HasSubstr("7.5"));
}

// Returns a report with this speed.
v1::JobEvent Report(uint64_t step, double loss, double samples_per_second) {
  v1::JobEvent event = ProgressEvent(step, step, 100);
  event.mutable_progress()->set_loss(loss);
  event.mutable_progress()->set_samples_per_second(samples_per_second);
  return event;
}

TEST(PrecisionRunTest, TheMedianIgnoresASlowFirstStep) {
  PrecisionRun run;
  run.job.mutable_spec()->mutable_training()->set_batch_size(32);
  EXPECT_EQ(run.median_step_seconds(), 0);
  run.OnEvent(Report(1, 3, 32));  // one second
  EXPECT_DOUBLE_EQ(run.median_step_seconds(), 1);
  run.OnEvent(Report(2, 2, 3200));
  run.OnEvent(Report(3, 1, 1600));
  run.OnEvent(StateEvent(4, v1::SUCCEEDED));
  EXPECT_DOUBLE_EQ(run.median_step_seconds(), 0.02);
  run.OnEvent(Report(5, 1, 3200));
  EXPECT_DOUBLE_EQ(run.median_step_seconds(), 0.015) << "the mean of two";
  ASSERT_EQ(run.losses.points().size(), 4u);
  EXPECT_EQ(run.losses.points()[1].value, 2);
}

TEST(PrecisionRunTest, AStepOfSeveralBatchesReadsAllOfThem) {
  PrecisionRun run;
  v1::TrainingSpec& training = *run.job.mutable_spec()->mutable_training();
  training.set_batch_size(32);
  training.set_accumulate_batches(4);
  run.OnEvent(Report(1, 3, 1280));
  EXPECT_DOUBLE_EQ(run.median_step_seconds(), 0.1);
}

TEST(PrecisionRunTest, AReportWithoutASpeedHasOnlyALoss) {
  PrecisionRun run;
  run.job.mutable_spec()->mutable_training()->set_batch_size(32);
  run.OnEvent(Report(1, 3, 0));
  EXPECT_EQ(run.median_step_seconds(), 0);
  EXPECT_EQ(run.losses.points().size(), 1u);
}

}  // namespace
}  // namespace gpupool::client
