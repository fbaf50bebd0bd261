#include "server/api/services/job_access.h"

#include <gmock/gmock.h>

#include "gpupool/v1/job.grpc.pb.h"
#include "gpupool/v1/usage.grpc.pb.h"
#include "tests/server/api/services/token_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using JobStub = v1::JobService::Stub;

// Two tenants, of which "a" has one job.
class JobAccessTest : public TokenFixture {
 protected:
  void SetUp() override {
    TokenFixture::SetUp();
    stub_ = v1::JobService::NewStub(channel_);
    AddDataset();
    a_ = HeaderOf("a", v1::USER);
    b_ = HeaderOf("b", v1::USER);
    ASSERT_TRUE(Submit(a_, NewJob("first")).ok());
    id_ = job_.id();
  }

  ApiOptions Options() const override {
    ApiOptions options = TokenFixture::Options();
    options.socket = directory_ / "socket";
    return options;
  }

  grpc::Status Submit(const std::string& header,
                      const v1::SubmitJobRequest& request) {
    return As(header).Call(*stub_, &JobStub::SubmitJob, request, &job_);
  }

  grpc::Status Get(const std::string& header, uint64_t id) {
    v1::GetJobRequest request;
    request.set_id(id);
    return As(header).Call(*stub_, &JobStub::GetJob, request, &job_);
  }

  // Returns the error of each call that names the job, as `header` sees it.
  std::vector<std::string> ErrorsOf(const std::string& header, uint64_t id) {
    std::vector<std::string> errors;
    const auto add = [&](const grpc::Status& status) {
      errors.push_back(std::to_string(status.error_code()) + " " +
                       status.error_message());
    };
    add(Get(header, id));
    v1::CancelJobRequest cancel;
    cancel.set_id(id);
    add(As(header).Call(*stub_, &JobStub::CancelJob, cancel, &job_));
    v1::HoldJobRequest hold;
    hold.set_id(id);
    add(As(header).Call(*stub_, &JobStub::HoldJob, hold, &job_));
    v1::ReleaseJobRequest release;
    release.set_id(id);
    add(As(header).Call(*stub_, &JobStub::ReleaseJob, release, &job_));
    v1::RequeueJobRequest requeue;
    requeue.set_id(id);
    add(As(header).Call(*stub_, &JobStub::RequeueJob, requeue, &job_));
    v1::ExplainJobRequest explain;
    explain.set_id(id);
    v1::JobExplanation explanation;
    add(As(header).Call(*stub_, &JobStub::ExplainJob, explain, &explanation));
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    v1::WatchJobRequest watch;
    watch.set_id(id);
    v1::JobEvent event;
    const auto reader = stub_->WatchJob(&context, watch);
    EXPECT_FALSE(reader->Read(&event));
    add(reader->Finish());
    return errors;
  }

  std::unique_ptr<JobStub> stub_;
  std::string a_, b_;
  v1::Job job_;
  uint64_t id_ = 0;
};

TEST_F(JobAccessTest, AJobHasTheTenantOfTheToken) {
  ASSERT_TRUE(Get(a_, id_).ok());
  EXPECT_EQ(job_.spec().tenant(), "a");
  v1::SubmitJobRequest request = NewJob("second");
  request.mutable_spec()->set_tenant("a");
  EXPECT_TRUE(Submit(a_, request).ok());
  request = NewJob("third");
  request.mutable_spec()->set_tenant("b");
  EXPECT_EQ(Submit(a_, request).error_code(), grpc::PERMISSION_DENIED);
}

TEST_F(JobAccessTest, AJobOfAnotherTenantLooksLikeNone) {
  std::vector<std::string> of_other = ErrorsOf(b_, id_);
  const std::vector<std::string> of_none = ErrorsOf(b_, id_ + 1000);
  for (std::string& error : of_other) {
    const size_t at = error.find(std::to_string(id_));
    ASSERT_NE(at, std::string::npos) << error;
    error.replace(at, std::to_string(id_).size(), std::to_string(id_ + 1000));
  }
  EXPECT_EQ(of_other, of_none);
  EXPECT_THAT(of_none.front(), HasSubstr("there is no job"));
}

TEST_F(JobAccessTest, ListsHaveTheJobsOfTheTenant) {
  v1::ListJobsRequest request;
  v1::ListJobsResponse list;
  ASSERT_TRUE(As(b_).Call(*stub_, &JobStub::ListJobs, request, &list).ok());
  EXPECT_EQ(list.jobs_size(), 0);
  ASSERT_TRUE(As(a_).Call(*stub_, &JobStub::ListJobs, request, &list).ok());
  EXPECT_EQ(list.jobs_size(), 1);
  request.set_tenant("a");
  EXPECT_EQ(
      As(b_).Call(*stub_, &JobStub::ListJobs, request, &list).error_code(),
      grpc::PERMISSION_DENIED);
}

TEST_F(JobAccessTest, AnOperatorHasTheJobsOfAll) {
  const std::string operators = HeaderOf("", v1::OPERATOR);
  EXPECT_TRUE(Get(operators, id_).ok());
  v1::ListJobsResponse list;
  ASSERT_TRUE(
      As(operators)
          .Call(*stub_, &JobStub::ListJobs, v1::ListJobsRequest(), &list)
          .ok());
  EXPECT_EQ(list.jobs_size(), 1);
}

TEST_F(JobAccessTest, ACallerAtTheSocketHasTheJobsOfAll) {
  EXPECT_EQ(Get("", id_).error_code(), grpc::UNAUTHENTICATED);
  stub_ = v1::JobService::NewStub(grpc::CreateChannel(
      "unix:" + (directory_ / "socket"), grpc::InsecureChannelCredentials()));
  EXPECT_TRUE(Get("", id_).ok());
  EXPECT_EQ(Get(b_, id_).error_code(), grpc::NOT_FOUND) << "a token counts";
  EXPECT_TRUE(Submit("", NewJob("second")).ok());
}

TEST_F(JobAccessTest, AJobWaitsForNoJobOfAnotherTenant) {
  v1::SubmitJobRequest request = NewJob("other");
  request.mutable_spec()->add_after_any(id_);
  const grpc::Status of_other = Submit(b_, request);
  EXPECT_EQ(of_other.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(of_other.error_message(), "after_any names " + std::to_string(id_) +
                                          ", but there is no job or array " +
                                          std::to_string(id_) +
                                          "; see `gpupool jobs`");
  EXPECT_TRUE(Submit(a_, request).ok());
}

TEST_F(JobAccessTest, AnArrayOfAnotherTenantLooksLikeNone) {
  v1::GetJobRequest request;
  request.set_id(id_);  // a job, no array
  v1::JobArray array;
  const grpc::Status of_job =
      As(a_).Call(*stub_, &JobStub::GetArray, request, &array);
  EXPECT_EQ(of_job.error_code(), grpc::NOT_FOUND);
  EXPECT_THAT(of_job.error_message(), HasSubstr("there is no array"));
}

TEST_F(JobAccessTest, UsageIsThatOfTheTenant) {
  const auto usage = v1::UsageService::NewStub(channel_);
  v1::GetUsageRequest request;
  v1::GetUsageResponse response;
  EXPECT_TRUE(
      As(b_)
          .Call(*usage, &v1::UsageService::Stub::GetUsage, request, &response)
          .ok());
  request.set_tenant("a");
  EXPECT_EQ(
      As(b_)
          .Call(*usage, &v1::UsageService::Stub::GetUsage, request, &response)
          .error_code(),
      grpc::PERMISSION_DENIED);
}

TEST_F(JobAccessTest, QuotasAreThoseOfTheTenant) {
  const auto usage = v1::UsageService::NewStub(channel_);
  v1::GetQuotaRequest request;
  v1::GetQuotaResponse response;
  const auto quota = [&](const std::string& header) {
    response.Clear();
    return As(header).Call(*usage, &v1::UsageService::Stub::GetQuota, request,
                           &response);
  };
  ASSERT_TRUE(quota(b_).ok());
  ASSERT_EQ(response.tenants_size(), 1);
  EXPECT_EQ(response.tenants(0).tenant(), "b");
  request.set_tenant("a");
  EXPECT_EQ(quota(b_).error_code(), grpc::PERMISSION_DENIED);
  ASSERT_TRUE(quota(a_).ok());
  EXPECT_EQ(response.tenants(0).jobs().used(), 1u);
  request.set_tenant("a..b");
  EXPECT_EQ(quota(HeaderOf("", v1::OPERATOR)).error_code(),
            grpc::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace gpupool::server
