// A gpupool server without a pool: the real services on a real socket, whose
// answers a test writes down. What it was asked is there to be looked at.
//
// Thread-safety: `state` is guarded by its mutex; the server's threads use it
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
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "gpupool/v1/usage.pb.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::client {

struct FakeState {
  absl::Mutex mutex;
  // Statuses that the next calls of an rpc end with, oldest first.
  std::map<std::string, std::vector<absl::Status>> failures
      ABSL_GUARDED_BY(mutex);
  // How often each rpc was called.
  std::map<std::string, int> calls ABSL_GUARDED_BY(mutex);

  std::map<uint64_t, v1::Job> jobs ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, std::vector<v1::JobEvent>> events ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, v1::JobArray> arrays ABSL_GUARDED_BY(mutex);
  // What a watch of any array sees of its counts, one after the other; a break
  // of the connection comes after each but the last.
  std::vector<v1::JobArray> array_script ABSL_GUARDED_BY(mutex);
  // Events of a job that a new submit is given, and what it becomes.
  std::vector<v1::JobEvent> script ABSL_GUARDED_BY(mutex);
  v1::Job outcome ABSL_GUARDED_BY(mutex);
  // After so many events a watch breaks off once (0: never).
  int break_after ABSL_GUARDED_BY(mutex) = 0;
  std::vector<uint64_t> watched_after ABSL_GUARDED_BY(mutex);
  v1::SubmitJobRequest submitted ABSL_GUARDED_BY(mutex);
  v1::ListJobsRequest listed ABSL_GUARDED_BY(mutex);

  std::map<std::string, v1::Dataset> datasets ABSL_GUARDED_BY(mutex);
  std::string uploaded_bytes ABSL_GUARDED_BY(mutex);
  size_t largest_chunk ABSL_GUARDED_BY(mutex) = 0;

  std::map<std::string, v1::Model> models ABSL_GUARDED_BY(mutex);
  v1::PromoteCheckpointRequest promoted ABSL_GUARDED_BY(mutex);
  v1::LoadVersionRequest loaded ABSL_GUARDED_BY(mutex);
  v1::UnloadVersionRequest unloaded ABSL_GUARDED_BY(mutex);
  v1::RecordMemoryHistoryRequest history ABSL_GUARDED_BY(mutex);
  v1::PlanJobResponse plan ABSL_GUARDED_BY(mutex);
  v1::ListDevicesResponse devices ABSL_GUARDED_BY(mutex);

  // The model "sum": two numbers in, [x + y, x - y] out, so that its class is
  // 0 unless y is negative.
  std::vector<int> request_rows ABSL_GUARDED_BY(mutex);
  v1::GetUsageRequest usage_request ABSL_GUARDED_BY(mutex);  // the last
  v1::CreateReservationRequest reserved ABSL_GUARDED_BY(mutex);
  v1::CancelReservationRequest unreserved ABSL_GUARDED_BY(mutex);
};

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();

  std::string address() const;
  // Ends all calls with Unavailable; Start listens on the same port again.
  void Stop();
  void Start();

  FakeState state;

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  int port_ = 0;
};

// An event with this sequence number and state.
v1::JobEvent StateEvent(uint64_t sequence, v1::JobState to);
v1::JobEvent ProgressEvent(uint64_t sequence, uint64_t step, uint64_t total);
v1::JobEvent LogEvent(uint64_t sequence, const std::string& text);

}  // namespace gpupool::client
