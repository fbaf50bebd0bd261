// Implements JobService of gpupool.v1; job.proto is its contract. Translates
// and checks; control decides.
#pragma once

#include "absl/strings/string_view.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "server/api/rpc/stream_registry.h"
#include "server/control/calls/callback.h"
#include "server/control/jobs/submission_trace.h"

namespace gpupool::scheduler {
enum class ArrayRequest;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class BlobStore;
class JobAccess;
struct ControlContext;

class JobService : public v1::JobService::CallbackService {
 public:
  // `control`, `blobs` and `access` must outlive the service. At most
  // `watch_limit` WatchJob streams may be open at a time.
  JobService(const ControlContext* control, const BlobStore* blobs,
             const JobAccess* access, size_t watch_limit)
      : control_(control),
        blobs_(blobs),
        access_(access),
        watches_(watch_limit) {}

  // Ends all streams with Unavailable, so that clients come back and WatchJob
  // resumes.
  void StopStreams() {
    watches_.StopAll();
    profiles_.StopAll();
  }

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* HoldJob(grpc::CallbackServerContext* context,
                                    const v1::HoldJobRequest* request,
                                    v1::Job* response) override;
  grpc::ServerUnaryReactor* ReleaseJob(grpc::CallbackServerContext* context,
                                       const v1::ReleaseJobRequest* request,
                                       v1::Job* response) override;
  grpc::ServerUnaryReactor* RequeueJob(grpc::CallbackServerContext* context,
                                       const v1::RequeueJobRequest* request,
                                       v1::Job* response) override;
  grpc::ServerUnaryReactor* ExplainJob(grpc::CallbackServerContext* context,
                                       const v1::ExplainJobRequest* request,
                                       v1::JobExplanation* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* SubmitArray(grpc::CallbackServerContext* context,
                                        const v1::SubmitJobRequest* request,
                                        v1::JobArray* response) override;
  grpc::ServerUnaryReactor* GetArray(grpc::CallbackServerContext* context,
                                     const v1::GetJobRequest* request,
                                     v1::JobArray* response) override;
  grpc::ServerUnaryReactor* ListArrays(
      grpc::CallbackServerContext* context,
      const v1::ListArraysRequest* request,
      v1::ListArraysResponse* response) override;
  grpc::ServerUnaryReactor* CancelArray(grpc::CallbackServerContext* context,
                                        const v1::CancelJobRequest* request,
                                        v1::JobArray* response) override;
  grpc::ServerUnaryReactor* HoldArray(grpc::CallbackServerContext* context,
                                      const v1::HoldJobRequest* request,
                                      v1::JobArray* response) override;
  grpc::ServerUnaryReactor* ReleaseArray(grpc::CallbackServerContext* context,
                                         const v1::ReleaseJobRequest* request,
                                         v1::JobArray* response) override;
  grpc::ServerUnaryReactor* RequeueArray(grpc::CallbackServerContext* context,
                                         const v1::RequeueJobRequest* request,
                                         v1::JobArray* response) override;
  grpc::ServerWriteReactor<v1::JobArray>* WatchArray(
      grpc::CallbackServerContext* context,
      const v1::GetJobRequest* request) override;
  grpc::ServerWriteReactor<v1::ProfileJobResponse>* ProfileJob(
      grpc::CallbackServerContext* context,
      const v1::ProfileJobRequest* request) override;
  grpc::ServerUnaryReactor* PlanJob(grpc::CallbackServerContext* context,
                                    const v1::PlanJobRequest* request,
                                    v1::PlanJobResponse* response) override;

 private:
  // Begins the span of a submission; null when it is not traced.
  SubmissionTracePtr BeginTrace(const grpc::CallbackServerContext& context,
                                absl::string_view method) const;

  template <typename Response>
  using OfControl = void (*)(const ControlContext&, uint64_t,
                             Callback<Response>);
  // Handles a call that needs only the job's id.
  template <typename Response>
  grpc::ServerUnaryReactor* AskById(grpc::CallbackServerContext* context,
                                    uint64_t id, OfControl<Response> ask,
                                    Response* response);

  grpc::ServerUnaryReactor* AskOfArray(grpc::CallbackServerContext* context,
                                       uint64_t id,
                                       scheduler::ArrayRequest what,
                                       v1::JobArray* response);

  // Few at a time, since each stream holds a file that may be large.
  static constexpr size_t kMaxProfiles = 16;

  const ControlContext* const control_;
  const BlobStore* const blobs_;
  const JobAccess* const access_;
  StreamRegistry watches_;
  StreamRegistry profiles_{kMaxProfiles, kStreamPatience};
};

}  // namespace gpupool::server
