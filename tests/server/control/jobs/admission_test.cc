#include "server/control/jobs/admission.h"

#include <gmock/gmock.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/models/dataset_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class AdmissionTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
  }
  // Counts in plans_ the plans of training that the meta worker is asked for.
  void CountPlans() {
    workers->meta =
        [this, plan = workers->meta](const worker::v1::ToWorker& message) {
          if (message.has_plan_training()) ++plans_;
          return plan(message);
        };
  }

  absl::StatusOr<v1::PlanJobResponse> Plan(const v1::JobSpec& spec) {
    Answer<v1::PlanJobResponse> answer;
    v1::PlanJobRequest request;
    *request.mutable_spec() = spec;
    PlanJob(control(), request, AllDatasets(), answer.callback());
    return answer.Wait();
  }

  int plans_ = 0;
};

TEST_F(AdmissionTest, TheSameRequestTwiceIsOneJob) {
  const auto first = Submit(Request("r1"));
  const auto second = Submit(Request("r1"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->id(), second->id());
}

TEST_F(AdmissionTest, TheSameRequestWithAnotherSpecIsRefused) {
  const auto first = Submit(Request("r1"));
  ASSERT_TRUE(first.ok()) << first.status();
  v1::SubmitJobRequest other = Request("r1");
  other.mutable_spec()->set_priority(7);
  const auto status = Submit(other).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_EQ(status.message(),
            absl::StrCat("request_id \"r1\" was used for job ", first->id(),
                         " with another spec; use a new request_id for a new "
                         "job"));
}

TEST_F(AdmissionTest, TheSameRequestOfAnotherTenantIsAnotherJob) {
  const auto first = Submit(Request("r1"));
  v1::SubmitJobRequest other = Request("r1");
  other.mutable_spec()->set_tenant("lab");
  EXPECT_NE(Submit(other)->id(), first->id());
}

TEST_F(AdmissionTest, TheSameRequestManyTimesAtOnceIsOneJob) {
  std::vector<Answer<v1::Job>> answers(50);
  for (auto& answer : answers) {
    SubmitJob(control(), Request("r1"), answer.callback());
  }
  std::set<uint64_t> ids;
  for (auto& answer : answers) {
    const auto job = answer.Wait();
    ASSERT_TRUE(job.ok()) << job.status();
    ids.insert(job->id());
  }
  EXPECT_EQ(ids.size(), 1u);
}

TEST_F(AdmissionTest, TheRequestIsRememberedAfterTheJobHasEnded) {
  Hello("cpu:0");
  const v1::Job job = FinishedJob("r1", false);
  v1::SubmitJobRequest request = Request("r1");
  *request.mutable_spec() = job.spec();
  const auto again = Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), job.id());
  EXPECT_EQ(again->state(), v1::SUCCEEDED);
}

TEST_F(AdmissionTest, AnUnknownDatasetIsNamed) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_data()->set_dataset("nope");
  const auto status = Submit(request).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"nope\""));
}

TEST_F(AdmissionTest, SyntheticRowsNeedNoDataset) {
  v1::Dataset planned;
  const auto plan = workers->meta;
  workers->meta = [&](const worker::v1::ToWorker& message) {
    if (message.has_plan_training()) {
      planned = message.plan_training().dataset();
    }
    return plan(message);
  };
  v1::SubmitJobRequest request = Request("r1");
  v1::DataSpec& data = *request.mutable_spec()->mutable_data();
  data.clear_dataset();
  data.mutable_synthetic()->set_kind(v1::SyntheticData::SPIRALS);
  data.mutable_synthetic()->set_rows(500);
  ASSERT_TRUE(Plan(request.spec()).ok());
  EXPECT_EQ(planned.rows(), 500u);
  const auto job = Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(planned.rows(), 500u);
  EXPECT_EQ(planned.synthetic().kind(), v1::SyntheticData::SPIRALS);
  data.mutable_synthetic()->set_features(3);
  request.set_request_id("r2");
  const auto refused = Submit(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is for blobs"));
  EXPECT_TRUE(absl::IsInvalidArgument(Plan(request.spec()).status()));
}

TEST_F(AdmissionTest, ADatasetReplacedDuringThePlanIsNotTrainedOn) {
  const auto plan = workers->meta;
  bool replaced = false;
  workers->meta = [&](const worker::v1::ToWorker& message) {
    if (message.has_plan_training() && !replaced) {
      replaced = true;
      Answer<bool> deleted;
      DeleteDataset(
          control(), "digits",
          [done = deleted.callback()](auto status) { done(status.ok()); });
      EXPECT_TRUE(*deleted.Wait());
      AddDataset("digits");
    }
    return plan(message);
  };
  EXPECT_TRUE(absl::IsUnavailable(Submit(Request("r1")).status()));
  EXPECT_TRUE(Submit(Request("r1")).ok());
}

TEST_F(AdmissionTest, AValidationSetIsPlannedWithAndThenInUse) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_data()->set_validation("val");
  const auto refused = Submit(request).status();
  EXPECT_TRUE(absl::IsNotFound(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"val\""));
  AddDataset("val");
  std::string planned;
  const auto plan = workers->meta;
  workers->meta = [&](const worker::v1::ToWorker& message) {
    if (message.has_plan_training()) {
      planned = message.plan_training().validation().name();
    }
    return plan(message);
  };
  ASSERT_TRUE(Submit(request).ok());
  EXPECT_EQ(planned, "val");
  Answer<bool> deleted;
  DeleteDataset(control(), "val", [done = deleted.callback()](auto status) {
    done(absl::IsFailedPrecondition(status.status()));
  });
  EXPECT_TRUE(*deleted.Wait());
}

TEST_F(AdmissionTest, AValidationSetReplacedDuringThePlanIsNotUsed) {
  AddDataset("val");
  const auto plan = workers->meta;
  bool replaced = false;
  workers->meta = [&](const worker::v1::ToWorker& message) {
    if (message.has_plan_training() && !replaced) {
      replaced = true;
      Answer<bool> deleted;
      DeleteDataset(control(), "val", [done = deleted.callback()](auto status) {
        done(status.ok());
      });
      EXPECT_TRUE(*deleted.Wait());
      AddDataset("val");
    }
    return plan(message);
  };
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_data()->set_validation("val");
  EXPECT_TRUE(absl::IsUnavailable(Submit(request).status()));
  EXPECT_TRUE(Submit(request).ok());
}

TEST_F(AdmissionTest, AJobLikeAnEarlierOneIsNotPlannedAgain) {
  CountPlans();
  ASSERT_TRUE(Submit(Request("r1")).ok());
  v1::SubmitJobRequest like = Request("r2");
  like.mutable_spec()->set_name("like-it");
  const auto job = Submit(like);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(job->memory().planned_peak_bytes(), planned_bytes);
  EXPECT_EQ(job->progress().total_steps(), 20u);
  // Another meta worker may make a different plan.
  Hello(kMetaDevice);
  ASSERT_TRUE(Submit(Request("r3")).ok());
  EXPECT_EQ(plans_, 2);
}

TEST_F(AdmissionTest, AModelWhoseFilesAreGoneIsPlannedAgain) {
  CountPlans();
  v1::SubmitJobRequest request = Request("r1");
  const auto sha256 = blobs->Put("a model");
  ASSERT_TRUE(sha256.ok());
  request.mutable_spec()->mutable_model()->mutable_onnx()->set_sha256(*sha256);
  ASSERT_TRUE(Submit(request).ok());
  request.set_request_id("r2");
  ASSERT_TRUE(Submit(request).ok());
  EXPECT_EQ(plans_, 1);
  ASSERT_TRUE(blobs->Delete(*sha256).ok());
  request.set_request_id("r3");
  ASSERT_TRUE(Submit(request).ok());
  EXPECT_EQ(plans_, 2);
}

TEST_F(AdmissionTest, AModelWhoseWeightsAreGoneIsPlannedAgain) {
  CountPlans();
  v1::SubmitJobRequest request = Request("r1");
  const auto sha256 = blobs->Put("some weights");
  ASSERT_TRUE(sha256.ok());
  request.mutable_spec()->mutable_model()->mutable_weights()->set_sha256(
      *sha256);
  ASSERT_TRUE(Submit(request).ok());
  ASSERT_TRUE(blobs->Delete(*sha256).ok());
  request.set_request_id("r2");
  ASSERT_TRUE(Submit(request).ok());
  EXPECT_EQ(plans_, 2);
}

TEST_F(AdmissionTest, ThePlannersErrorPassesThrough) {
  workers->meta = [](const worker::v1::ToWorker&) {
    return absl::InvalidArgumentError("layer \"dense_1\": shapes differ");
  };
  EXPECT_EQ(Submit(Request("r1")).status(),
            absl::InvalidArgumentError("layer \"dense_1\": shapes differ"));
}

TEST_F(AdmissionTest, AJobThatFitsNowhereIsRefusedWithBothNumbers) {
  planned_bytes = kLimit + 1;
  const auto status = Submit(Request("r1")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("never fits: needs 1001 B, the largest device has 1000 B"));
  planned_bytes = kLimit;
  v1::SubmitJobRequest smaller = Request("r1");
  smaller.mutable_spec()->mutable_training()->set_batch_size(1);
  EXPECT_TRUE(Submit(smaller).ok());
}

TEST_F(AdmissionTest, AJobForMoreDevicesThanThereAreIsRefused) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->set_devices(4);
  const auto status = Submit(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(std::string(status.message()),
            "never fits: needs 4 devices of one kind with 100 B each; large "
            "enough are 1 of 1 cpu devices; use fewer devices, a smaller "
            "batch_size or model, or raise the devices' limits");
}

TEST_F(AdmissionTest, ADeviceThatThePoolDoesNotHaveIsRefusedWithThoseItHas) {
  for (const char* device : {"cpu:7", "cuda", "cuda:0"}) {
    v1::SubmitJobRequest request = Request("r1");
    request.mutable_spec()->set_device(device);
    const auto status = Submit(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(std::string(status.message()),
              absl::StrCat("device is \"", device,
                           "\", which the pool does not have; it has cpu:0; "
                           "write one of these, or `any` to take whichever is "
                           "free",
                           absl::StartsWith(device, "cuda")
                               ? "; the server's log and `gpupool doctor` say "
                                 "why a GPU of the machine is missing"
                               : ""));
    EXPECT_EQ(Plan(request.spec()).status(), status);
  }
  for (const char* device : {"cpu:0", "cpu", "any"}) {
    v1::SubmitJobRequest request = Request(device);
    request.mutable_spec()->set_device(device);
    EXPECT_TRUE(Submit(request).ok()) << device;
  }
}

TEST_F(AdmissionTest, APlanSaysThatAnExclusiveJobNeedsAnEmptyDevice) {
  Hello("cpu:0");
  SubmitAndStart(Request("r1"));
  v1::JobSpec spec = Request("r2").spec();
  spec.set_exclusive(true);
  const auto plan = Plan(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->devices_size(), 1);
  EXPECT_FALSE(plan->devices(0).fits_now());
  EXPECT_TRUE(plan->devices(0).fits_ever());
  EXPECT_THAT(plan->start().waits_for(),
              HasSubstr("a whole device (exclusive: true); on cpu:0 is 1 job"));
}

TEST_F(AdmissionTest, TooManyActiveJobsAreRefused) {
  loop.reset();
  store.reset();
  options.active_job_limit = 2;
  StartLoop();
  ASSERT_TRUE(Submit(Request("r1")).ok());
  ASSERT_TRUE(Submit(Request("r2")).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(Request("r3")).status()));
}

TEST_F(AdmissionTest, ATenantHasItsMostJobsWithThoseOfItsParts) {
  loop.reset();
  store.reset();
  options.scheduling.tenants = {{"lab", {.most_jobs = 2}}};
  StartLoop();
  const auto submit = [&](const char* id, const char* tenant) {
    v1::SubmitJobRequest request = Request(id);
    request.mutable_spec()->set_tenant(tenant);
    return Submit(request);
  };
  const auto first = submit("r1", "lab");
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(submit("r2", "lab.vision").ok());
  const auto refused = submit("r3", "lab.vision");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(refused.status().message(),
            "tenant \"lab\" has 2 jobs that have not ended, may have 2, and "
            "asks for 1 more; wait until some end or cancel them, or have "
            "`jobs` raised in the server's --tenants");
  EXPECT_TRUE(submit("r4", "laboratory").ok()) << "no part of lab";
  EXPECT_TRUE(submit("r1", "lab").ok()) << "repeated";
  Answer<v1::Job> cancelled;
  CancelJob(control(), first->id(), cancelled.callback());
  ASSERT_TRUE(cancelled.Wait().ok());
  EXPECT_TRUE(submit("r5", "lab").ok()) << "an ended job counts no more";
}

TEST_F(AdmissionTest, PlanningStoresNothingAndSaysWhereItFits) {
  planned_bytes = 400;
  const auto plan = Plan(Request("r1").spec());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->total_steps(), 20u);
  ASSERT_EQ(plan->devices_size(), 1);
  EXPECT_TRUE(plan->devices(0).fits_now());
  EXPECT_EQ(ListJobs(control(), {})->jobs_size(), 0);
}

TEST_F(AdmissionTest, PlanningNeedsNoDatasetYet) {
  v1::JobSpec spec = Request("r1").spec();
  spec.mutable_data()->set_dataset("later");
  spec.mutable_training()->set_epochs(3);
  planned_bytes = 400;
  const auto plan = Plan(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan().training().peak(), 400u);
  EXPECT_EQ(plan->total_steps(), 0u);
}

TEST_F(AdmissionTest, PlanModelUsesTheInferenceBytes) {
  Answer<v1::PlanModelResponse> answer;
  v1::ServingOptions serving;
  serving.set_max_batch_size(8);
  PlanModel(control(), {}, serving, answer.callback());
  EXPECT_EQ(answer.Wait()->plan().inference().peak(), 50u);
}

}  // namespace
}  // namespace gpupool::server
