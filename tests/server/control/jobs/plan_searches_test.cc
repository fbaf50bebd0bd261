#include "server/control/jobs/plan_searches.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "server/control/devices/device_board.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/batch_search.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanSearchesTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    AddDataset("letters");
    Greet();
    // Each row takes 3 bytes beside 100, of the device's 1000.
    workers->meta = [this](const worker::v1::ToWorker& message)
        -> absl::StatusOr<worker::v1::FromWorker> {
      const uint64_t batch =
          message.plan_training().spec().training().batch_size();
      ++plans_;
      now_ += plan_time_;
      if (plans_ > 1 && !later_.ok()) return later_;
      if (batch > most_batch_) return absl::InvalidArgumentError("too short");
      worker::v1::FromWorker reply;
      worker::v1::PlanReply& plan = *reply.mutable_plan();
      plan.set_total_steps(20);
      plan.set_training_rows(rows_);
      plan.mutable_plan()->mutable_training()->set_peak(100 +
                                                        row_bytes_ * batch);
      plan.mutable_plan()->mutable_step_work()->set_product_flops(1000);
      return reply;
    };
  }
  // The worker of cpu:0 connects, with a million FLOPs a second.
  void Greet() {
    worker::v1::HelloReply hello;
    hello.mutable_info()->mutable_peak_rates()->set_float32_flops(1e6);
    loop->OnWorkerReady("cpu:0", hello);
    EXPECT_TRUE(Eventually(
        [&] { return control().board->Find("cpu:0").has_peak_rates(); }));
  }
  v1::JobSpec Spec(uint32_t batch) {
    v1::JobSpec spec = Request("planned").spec();
    spec.mutable_training()->set_batch_size(batch);
    return spec;
  }
  v1::PlanJobResponse Plan(const v1::JobSpec& spec, bool advise = true) {
    Answer<v1::PlanJobResponse> answer;
    v1::PlanJobRequest request;
    *request.mutable_spec() = spec;
    request.set_advise(advise);
    PlanJob(context_.has_value() ? *context_ : control(), request,
            AllDatasets(), answer.callback());
    const auto response = answer.Wait();
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::PlanJobResponse();
  }

  // From now on the clock moves by this in each plan, and else stands.
  void TakeForAPlan(absl::Duration time) {
    plan_time_ = time;
    context_.emplace(control());
    context_->now = [this] { return now_; };
  }

  int plans_ = 0;
  uint64_t row_bytes_ = 3;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  absl::Duration plan_time_;
  std::optional<ControlContext> context_;  // with the clock, if that is set
  uint64_t rows_ = 10'000;
  absl::Status later_;                // answer to all plans but the first
  uint64_t most_batch_ = UINT64_MAX;  // larger ones are refused
};

TEST_F(PlanSearchesTest, WithoutTheWishTheJobIsPlannedOnce) {
  const v1::PlanJobResponse response = Plan(Spec(32), false);
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(response.largest_batches_size(), 0);
  EXPECT_EQ(response.advice_size(), 0);
}

TEST_F(PlanSearchesTest, FindsTheLargestBatchOfADeviceWithFewPlans) {
  const v1::PlanJobResponse response = Plan(Spec(32));
  ASSERT_EQ(response.largest_batches_size(), 1);
  const v1::LargestBatch& found = response.largest_batches(0);
  EXPECT_THAT(found.devices(), ElementsAre("cpu:0"));
  EXPECT_EQ(found.limit_bytes(), kLimit);
  EXPECT_EQ(found.batch_size(), 300u);
  EXPECT_EQ(found.peak_bytes(), kLimit);
  EXPECT_EQ(found.too_large(), 301u);
  EXPECT_LE(plans_, 1 + BatchSearch::kMostPlans);
  EXPECT_EQ(response.plan().training().peak(), 196u) << "that of the job";
  EXPECT_TRUE(response.start().has_time()) << "and its forecast";
  EXPECT_THAT(response.advice(),
              Contains(HasSubstr("the largest batch_size on cpu:0 is 300")));
}

TEST_F(PlanSearchesTest, ABatchNeverExceedsTheRows) {
  rows_ = 50;
  const v1::PlanJobResponse response = Plan(Spec(32));
  ASSERT_EQ(response.largest_batches_size(), 1);
  EXPECT_EQ(response.largest_batches(0).batch_size(), 50u);
  EXPECT_THAT(response.advice(),
              Contains(HasSubstr("every batch_size up to 50, all rows")));
}

TEST_F(PlanSearchesTest, NoLargerBatchIsPlannedThanAJobMayHave) {
  row_bytes_ = 0;
  rows_ = 4'000'000;
  const v1::PlanJobResponse response = Plan(Spec(1'000'000));
  ASSERT_EQ(response.largest_batches_size(), 1);
  EXPECT_EQ(response.largest_batches(0).batch_size(), 1'048'576u);
  EXPECT_EQ(plans_, 2);
  EXPECT_THAT(
      response.advice(),
      Contains(HasSubstr("every batch_size up to the limit of 1048576 fits")));
}

TEST_F(PlanSearchesTest, APlanMayTakeTheTimeThatIsLeft) {
  TakeForAPlan(absl::Milliseconds(1500));
  workers->TakeMetaTimeouts();
  EXPECT_EQ(Plan(Spec(32)).largest_batches(0).batch_size(), 300u);
  EXPECT_THAT(workers->TakeMetaTimeouts(),
              ElementsAre(control().options.plan_timeout, absl::Seconds(5),
                          absl::Milliseconds(3500), absl::Seconds(2)));
}

TEST_F(PlanSearchesTest, AfterFiveSecondsNoFurtherPlanIsAskedFor) {
  TakeForAPlan(absl::Seconds(2));
  later_ = absl::InvalidArgumentError("the budget is too low");
  EXPECT_EQ(Plan(Spec(32)).largest_batches_size(), 1);
  EXPECT_EQ(plans_, 1 + 3) << "after 0, 2 and 4 s";
}

TEST_F(PlanSearchesTest, AJobThatIsPlannedSlowlyIsPlannedOnce) {
  TakeForAPlan(absl::Milliseconds(2001));
  const v1::PlanJobResponse response = Plan(Spec(32));
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(response.largest_batches_size(), 0);
  EXPECT_EQ(response.step_times_size(), 1);
}

TEST_F(PlanSearchesTest, TheFourthRequestAtOnceSearchesNothing) {
  const auto plan = workers->meta;
  std::vector<v1::PlanJobResponse> inner;  // the one that began last is first
  int requests = 1;
  // The first further plan of a request waits for another request.
  workers->meta = [&](const worker::v1::ToWorker& message) {
    if (message.plan_training().spec().training().batch_size() != 32 &&
        requests < 4) {
      ++requests;
      inner.push_back(Plan(Spec(32)));
    }
    return plan(message);
  };
  const v1::PlanJobResponse first = Plan(Spec(32));
  ASSERT_EQ(inner.size(), 3u);
  EXPECT_EQ(inner[0].largest_batches_size(), 0);
  EXPECT_EQ(inner[0].step_times_size(), 1);
  EXPECT_EQ(inner[1].largest_batches_size(), 1);
  EXPECT_EQ(inner[2].largest_batches_size(), 1);
  EXPECT_EQ(first.largest_batches_size(), 1);
  EXPECT_EQ(Plan(Spec(32)).largest_batches_size(), 1) << "all have ended";
}

TEST_F(PlanSearchesTest, AJobThatDoesNotFitIsToldWhatDoes) {
  const v1::PlanJobResponse response = Plan(Spec(512));
  EXPECT_THAT(
      response.advice(),
      Contains(HasSubstr("write batch_size: 256 and accumulate_batches: 2")));
}

TEST_F(PlanSearchesTest, WithoutFurtherPlansTheAnswerHasTheRest) {
  later_ = absl::UnavailableError("the meta worker is away");
  const v1::PlanJobResponse response = Plan(Spec(32));
  EXPECT_EQ(plans_, 2);
  ASSERT_EQ(response.largest_batches_size(), 1);
  EXPECT_EQ(response.largest_batches(0).batch_size(), 32u);
  EXPECT_EQ(response.step_times_size(), 1);
}

TEST_F(PlanSearchesTest, RefusedBatchesSayNothingAboutMemory) {
  later_ = absl::InvalidArgumentError("the budget is too low");
  const v1::PlanJobResponse response = Plan(Spec(32));
  EXPECT_EQ(plans_, 1 + BatchSearch::kMostPlans);
  EXPECT_EQ(response.largest_batches(0).batch_size(), 32u);
  EXPECT_EQ(response.largest_batches(0).too_large(), 0u);
  EXPECT_THAT(response.advice(),
              Contains(HasSubstr("no larger one is known to fit")));
}

// A larger batch may make the run shorter than its warm-up, which is refused.
TEST_F(PlanSearchesTest, BelowRefusedBatchesIsOneThatFitsAtLeast) {
  most_batch_ = 200;
  const v1::PlanJobResponse response = Plan(Spec(32));
  ASSERT_EQ(response.largest_batches_size(), 1);
  const v1::LargestBatch& found = response.largest_batches(0);
  EXPECT_GT(found.batch_size(), 32u);
  EXPECT_LE(found.batch_size(), 200u);
  EXPECT_EQ(found.too_large(), 0u);
  EXPECT_THAT(response.advice(),
              Contains(HasSubstr("batch_size can grow to at least ")));
  EXPECT_THAT(response.advice(), Not(Contains(HasSubstr("the largest"))));
}

TEST_F(PlanSearchesTest, BatchesOfElasticJobsAreNotSearched) {
  v1::JobSpec spec = Spec(32);
  spec.set_min_devices(1);
  spec.set_max_devices(1);
  EXPECT_EQ(Plan(spec).largest_batches_size(), 0);
  EXPECT_EQ(plans_, 1);
}

TEST_F(PlanSearchesTest, AStepIsEstimatedUntilOneWasMeasured) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_training()->set_batch_size(32);
  const v1::JobSpec spec = request.spec();
  const double batch = spec.training().batch_size();
  v1::PlanJobResponse response = Plan(spec);
  ASSERT_EQ(response.step_times_size(), 1);
  EXPECT_DOUBLE_EQ(response.step_times(0).seconds(), 1e-3);
  EXPECT_EQ(response.step_times(0).measured_job_id(), 0u);
  const v1::Job job = SubmitAndStart(request);
  ReportStarted(job.id(), 1);
  worker::v1::Report report;
  report.set_job_id(job.id());
  report.set_attempt(1);
  report.mutable_progress()->set_step(5);
  report.mutable_progress()->set_samples_per_second(4 * batch);
  Report("cpu:0", report);
  ASSERT_TRUE(Eventually([&] {
    const auto stored = store->GetJob(job.id());
    return stored.ok() && stored->progress().samples_per_second() > 0;
  }));
  response = Plan(spec);
  EXPECT_EQ(response.step_times(0).measured_job_id(), job.id());
  EXPECT_DOUBLE_EQ(response.step_times(0).seconds(), 0.25);
  EXPECT_THAT(response.advice(), Contains(HasSubstr("a step took 250 ms")));
  // A job on other data says nothing.
  v1::JobSpec other = spec;
  other.mutable_data()->set_dataset("letters");
  EXPECT_EQ(Plan(other).step_times(0).measured_job_id(), 0u);
  other = spec;
  other.mutable_data()->set_validation("letters");
  EXPECT_EQ(Plan(other).step_times(0).measured_job_id(), 0u);
}

}  // namespace
}  // namespace gpupool::server
