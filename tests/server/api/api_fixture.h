// The gRPC endpoint over a real store and control loop, with stand-ins for the
// workers.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/fair_share.h"
#include "server/api/api_server.h"
#include "server/control/calls/context.h"
#include "server/control/control_loop.h"
#include "server/pool/worker_port.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {

// Plans everything, reads every dataset as ten rows, imports every model,
// starts every job.
class FakeWorkers : public WorkerPort {
 public:
  void Send(const std::string& device, worker::v1::ToWorker message,
            absl::Duration timeout, ReplyCallback callback) override;
  void Post(const std::string& device, worker::v1::ToWorker message) override;
  void AcknowledgeReports(const std::string&, uint64_t) override {}
  WorkerStatus status(const std::string&) const override { return {}; }

  // Answers of exports, dumps and profiles. Must be set before they are
  // requested.
  std::string exported;
  uint64_t exported_bytes = 0;
  worker::v1::PlanInference planned;  // the last request

  // Returns the next job that was given to a worker.
  worker::v1::StartJob AwaitStart();

 private:
  absl::Mutex mutex_;
  std::vector<worker::v1::StartJob> starts_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ApiFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Returns options that the test sets before SetUp.
  virtual ApiOptions Options() const {
    return {.listen = "127.0.0.1",
            .limits = {.message_bytes = uint64_t{64} << 20,
                       .dataset_bytes = uint64_t{64} << 20,
                       .model_file_bytes = uint64_t{64} << 20,
                       .watch_streams = 6}};
  }

  // Returns the limits of tenants.
  virtual scheduler::TenantShares Tenants() const { return {}; }

  // Returns the gate of the endpoint; null: everybody may call everything.
  virtual AccessGate* Gate() { return nullptr; }

  // Stores the dataset "digits".
  void AddDataset();
  static v1::SubmitJobRequest NewJob(const std::string& request_id);
  // Submits a job and waits until a worker has it.
  worker::v1::StartJob StartJob();
  // Sends a worker's report about the job. Fills in sequence, job and attempt.
  void Report(const worker::v1::StartJob& job, worker::v1::Report report);
  void ReportProgress(const worker::v1::StartJob& job, uint64_t step);
  void ReportSuccess(const worker::v1::StartJob& job);

  TempDir directory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<BlobStore> blobs_;
  FakeWorkers workers_;
  std::unique_ptr<ControlLoop> control_;
  absl::Notification stop_asked_;
  std::unique_ptr<ApiServer> api_;
  std::shared_ptr<grpc::Channel> channel_;
  uint64_t report_sequence_ = 0;
};

}  // namespace gpupool::server
