// A gpupool server without a pool: the real services on a real socket, with
// answers that a test sets. Tests can also read the requests.
//
// Thread-safety: `state` is guarded by its mutex. The server's threads use it
// while the server runs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/auth.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "gpupool/v1/usage.pb.h"
#include "inference/grpc_service.pb.h"
#include "tls/tls_files.h"

namespace gpupool::client {

struct FakeState {
  absl::Mutex mutex;
  // Statuses with which the next calls of an rpc end, oldest first.
  std::map<std::string, std::vector<absl::Status>> failures
      ABSL_GUARDED_BY(mutex);
  // Number of calls of each rpc.
  std::map<std::string, int> calls ABSL_GUARDED_BY(mutex);

  std::map<uint64_t, v1::Job> jobs ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, std::vector<v1::JobEvent>> events ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, v1::JobArray> arrays ABSL_GUARDED_BY(mutex);
  // Counts that a watch of any array sees, one after the other. The connection
  // breaks after each but the last.
  std::vector<v1::JobArray> array_script ABSL_GUARDED_BY(mutex);
  // Events and final state of a newly submitted job.
  std::vector<v1::JobEvent> script ABSL_GUARDED_BY(mutex);
  v1::Job outcome ABSL_GUARDED_BY(mutex);
  // Number of events after which a watch breaks once (0: never).
  int break_after ABSL_GUARDED_BY(mutex) = 0;
  std::vector<uint64_t> watched_after ABSL_GUARDED_BY(mutex);
  v1::SubmitJobRequest submitted ABSL_GUARDED_BY(mutex);
  v1::ListJobsRequest listed ABSL_GUARDED_BY(mutex);

  std::map<std::string, v1::Dataset> datasets ABSL_GUARDED_BY(mutex);
  std::string uploaded_bytes ABSL_GUARDED_BY(mutex);
  size_t largest_chunk ABSL_GUARDED_BY(mutex) = 0;
  v1::UploadDatasetRequest::Header upload_header ABSL_GUARDED_BY(mutex);
  // Answers of GetUpload by key.
  std::map<std::string, v1::Upload> kept_uploads ABSL_GUARDED_BY(mutex);
  // Number of bytes after which an upload of a dataset breaks once, and its
  // first file is kept (0: never).
  size_t upload_breaks_at ABSL_GUARDED_BY(mutex) = 0;

  // Limit that GetServerInfo tells, of datasets and of files of models. It is
  // not enforced.
  uint64_t upload_limit_bytes ABSL_GUARDED_BY(mutex) = 0;

  std::map<std::string, v1::Model> models ABSL_GUARDED_BY(mutex);
  v1::PromoteCheckpointRequest promoted ABSL_GUARDED_BY(mutex);
  v1::LoadVersionRequest loaded ABSL_GUARDED_BY(mutex);
  // Whether LoadVersion makes the version READY.
  bool loads_at_once ABSL_GUARDED_BY(mutex) = false;
  v1::UnloadVersionRequest unloaded ABSL_GUARDED_BY(mutex);
  // Calls of ModelReady that are answered with false, before the first true.
  int not_ready_calls ABSL_GUARDED_BY(mutex) = 0;
  v1::RecordMemoryHistoryRequest history ABSL_GUARDED_BY(mutex);
  // The answer of PlanJob. That of PlanModel has the same plan and devices.
  v1::PlanJobResponse plan ABSL_GUARDED_BY(mutex);
  v1::ListDevicesResponse devices ABSL_GUARDED_BY(mutex);

  // The model "sum" has two numbers as input and [x + y, x - y] as output, so
  // its class is 0 unless y is negative.
  std::vector<int> request_rows ABSL_GUARDED_BY(mutex);
  v1::GetUsageRequest usage_request ABSL_GUARDED_BY(mutex);  // the last one
  v1::GetQuotaRequest quota_request ABSL_GUARDED_BY(mutex);  // the last one
  v1::CreateReservationRequest reserved ABSL_GUARDED_BY(mutex);
  v1::CancelReservationRequest unreserved ABSL_GUARDED_BY(mutex);
  v1::CreateTokenRequest token_request ABSL_GUARDED_BY(mutex);
  // Header of the last ListTokens.
  std::string authorization ABSL_GUARDED_BY(mutex);
};

class FakeServer {
 public:
  // Speaks TLS if `files` has a certificate.
  explicit FakeServer(tls::TlsFiles files = {});
  ~FakeServer();

  std::string address() const;
  // Ends all calls with Unavailable. Start listens on the same port again.
  void Stop();
  void Start();

  FakeState state;

 private:
  struct Services;
  const tls::TlsFiles files_;
  std::unique_ptr<Services> services_;
  int port_ = 0;
};

// Returns an event with this sequence number and state.
v1::JobEvent StateEvent(uint64_t sequence, v1::JobState to);
// Returns the trace that ProfileJob sends: one run of one node, with memory.
std::string FakeTrace();
v1::JobEvent ProgressEvent(uint64_t sequence, uint64_t step, uint64_t total);
v1::JobEvent LogEvent(uint64_t sequence, const std::string& text);

}  // namespace gpupool::client
