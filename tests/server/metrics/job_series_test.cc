#include "server/metrics/job_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "absl/strings/str_cat.h"
#include "server/metrics/families.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Job Running(uint64_t id) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::RUNNING);
  job.mutable_spec()->set_tenant("vision");
  return job;
}

class JobSeriesTest : public ::testing::Test {
 protected:
  std::string Text() const {
    return prometheus::TextSerializer().Serialize(
        families_.registry->Collect());
  }
  static std::string Line(const char* name, uint64_t id, const char* value) {
    return absl::StrCat(name, "{job_id=\"", id, "\",tenant=\"vision\"} ", value,
                        "\n");
  }

  MetricFamilies families_;
  JobSeries series_{&families_};
};

TEST_F(JobSeriesTest, ARunningJobHasTheNumbersOfItsLastReport) {
  v1::Job job = Running(7);
  job.mutable_progress()->set_step(12);
  job.mutable_progress()->set_total_steps(100);
  job.mutable_progress()->set_samples_per_second(2500);
  job.mutable_progress()->set_loss(0.5);
  job.mutable_progress()->set_learning_rate(0.25);
  job.mutable_evaluation()->set_accuracy(0.75);
  series_.Set(job);
  job.mutable_progress()->set_step(13);
  series_.Set(job);
  const std::string text = Text();
  const std::pair<const char*, const char*> lines[] = {
      {"gpupool_job_step", "13"},
      {"gpupool_job_total_steps", "100"},
      {"gpupool_job_samples_per_second", "2500"},
      {"gpupool_job_loss", "0.5"},
      {"gpupool_job_learning_rate", "0.25"},
      {"gpupool_job_accuracy_ratio", "0.75"}};
  for (const auto& [name, value] : lines) {
    EXPECT_THAT(text, HasSubstr(Line(name, 7, value)));
  }
  EXPECT_THAT(text, HasSubstr("gpupool_jobs_without_series 0\n"));
}

TEST_F(JobSeriesTest, WhatAJobDoesNotHaveHasNoSeries) {
  v1::Job job = Running(7);
  series_.Set(job);
  for (const char* name :
       {"samples_per_second", "loss", "learning_rate", "accuracy_ratio"}) {
    EXPECT_THAT(Text(), Not(HasSubstr(absl::StrCat("gpupool_job_", name))));
  }
  EXPECT_THAT(Text(), HasSubstr(Line("gpupool_job_step", 7, "0")));
  job.mutable_progress()->set_loss(0);
  job.mutable_progress()->set_learning_rate(0);
  job.mutable_progress()->set_samples_per_second(5);
  job.mutable_evaluation()->set_accuracy(0);
  series_.Set(job);
  for (const char* name : {"loss", "learning_rate", "accuracy_ratio"}) {
    const std::string family = absl::StrCat("gpupool_job_", name);
    EXPECT_THAT(Text(), HasSubstr(Line(family.c_str(), 7, "0")));
  }
  job.mutable_progress()->clear_samples_per_second();
  series_.Set(job);
  EXPECT_THAT(Text(), Not(HasSubstr("gpupool_job_samples_per_second")));
  EXPECT_THAT(Text(), HasSubstr(Line("gpupool_job_loss", 7, "0")));
}

TEST_F(JobSeriesTest, OnlyRunningJobsHaveSeries) {
  for (int state = v1::QUEUED; state <= v1::CANCELLED; ++state) {
    series_.Set(Running(7));
    EXPECT_THAT(Text(), HasSubstr("job_id=\"7\""));
    v1::Job job = Running(7);
    job.set_state(static_cast<v1::JobState>(state));
    series_.Set(job);
    if (state == v1::RUNNING) continue;
    EXPECT_THAT(Text(), Not(HasSubstr("job_id")))
        << v1::JobState_Name(job.state());
  }
}

TEST_F(JobSeriesTest, JobsBeyondTheLimitAreCounted) {
  for (uint64_t id = 1; id <= kMostJobsWithSeries; ++id) {
    series_.Set(Running(id));
  }
  EXPECT_THAT(Text(), HasSubstr("gpupool_jobs_without_series 0\n"));
  EXPECT_THAT(Text(), HasSubstr("gpupool_job_series_limit 256\n"));
  series_.Set(Running(1000));
  series_.Set(Running(1000));
  series_.Set(Running(1001));
  EXPECT_THAT(Text(), HasSubstr("gpupool_jobs_without_series 2\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=\"1000\"")));
  v1::Job ended = Running(1001);
  ended.set_state(v1::FAILED);
  series_.Set(ended);
  EXPECT_THAT(Text(), HasSubstr("gpupool_jobs_without_series 1\n"));
  ended = Running(3);
  ended.set_state(v1::SUCCEEDED);
  series_.Set(ended);
  series_.Set(Running(1000));
  EXPECT_THAT(Text(), HasSubstr("gpupool_jobs_without_series 0\n"));
  EXPECT_THAT(Text(), HasSubstr(Line("gpupool_job_step", 1000, "0")));
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=\"3\"")));
}

}  // namespace
}  // namespace gpupool::server
