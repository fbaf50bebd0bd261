#include "server/api/rpc/call_auditor.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "audit/audit_check.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Time NowOfAudit() { return absl::FromUnixSeconds(1'700'000'000); }

// Accepts every job as number 7, and denies the reading of jobs.
class OneJob : public v1::JobService::CallbackService {
  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest*,
                                      v1::Job* job) override {
    job->set_id(7);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest*,
                                   v1::Job*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish({grpc::StatusCode::PERMISSION_DENIED, "no"});
    return reactor;
  }
};

class CallAuditorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto log = audit::AuditLog::Open(
        {.files = {.folder = folder_ / "audit"}, .now = NowOfAudit});
    ASSERT_TRUE(log.ok()) << log.status();
    gate_.KeepRecords(*std::move(log));
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    builder.experimental().SetInterceptorCreators(CallAuditors(&gate_));
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override { server_->Shutdown(); }

  std::shared_ptr<grpc::Channel> Socket() const {
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                               grpc::InsecureChannelCredentials());
  }

  // Submits a job, with metadata that names the peer of a call over HTTP.
  static void Submit(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.AddMetadata("gpupool-http-peer", "http:192.0.2.1");
    v1::SubmitJobRequest request;
    request.set_request_id("r-1");
    request.mutable_spec()->set_name("digits");
    v1::Job job;
    const grpc::Status status =
        v1::JobService::NewStub(channel)->SubmitJob(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // Returns the records of calls.
  std::vector<std::string> Records() {
    EXPECT_TRUE(gate_.log()->Flush().ok());
    std::vector<std::string> lines = *audit::LastLines(folder_ / "audit", 100);
    lines.erase(lines.begin());  // the start
    return lines;
  }

  const TempDir folder_;
  AccessGate gate_{FreeCallers::kAll, NowOfAudit};
  OneJob service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CallAuditorTest, AChangeIsNotedWithItsObjectAndCaller) {
  Submit(Socket());
  const auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(
      records[0],
      AllOf(HasSubstr("\"event\":\"call\""),
            HasSubstr("\"identity\":\"local\""),
            HasSubstr("\"peer\":\"ipv4:127.0.0.1:"),
            HasSubstr("\"method\":\"/gpupool.v1.JobService/SubmitJob\""),
            HasSubstr("\"object\":\"id=7 name=digits\""),
            HasSubstr("\"request_id\":\"r-1\""),
            HasSubstr("\"outcome\":\"OK\"")));
}

TEST_F(CallAuditorTest, ACallWithinTheProcessHasThePeerOfTheHttpPort) {
  Submit(server_->InProcessChannel({}));
  const auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(records[0], HasSubstr("\"peer\":\"http:192.0.2.1\""));
}

TEST_F(CallAuditorTest, OfReadsOnlyDenialsAreNoted) {
  const auto stub = v1::JobService::NewStub(Socket());
  grpc::ClientContext denied;
  v1::Job job;
  EXPECT_FALSE(stub->GetJob(&denied, {}, &job).ok());
  grpc::ClientContext unimplemented;
  v1::ListJobsResponse jobs;
  EXPECT_FALSE(stub->ListJobs(&unimplemented, {}, &jobs).ok());
  const auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(records[0], AllOf(HasSubstr("\"event\":\"denied\""),
                                HasSubstr("/gpupool.v1.JobService/GetJob"),
                                HasSubstr("\"outcome\":\"PERMISSION_DENIED\""),
                                Not(HasSubstr("ListJobs"))));
}

TEST_F(CallAuditorTest, AFailedChangeIsNotedToo) {
  const auto stub = v1::JobService::NewStub(Socket());
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_id(9);
  v1::Job job;
  EXPECT_EQ(stub->CancelJob(&context, request, &job).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  const auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(records[0], AllOf(HasSubstr("\"object\":\"id=9\""),
                                HasSubstr("\"outcome\":\"UNIMPLEMENTED\"")));
}

}  // namespace
}  // namespace gpupool::server
