// One ModelInferRequest on its way to an answer, from either rpc. It checks the
// request, queues it with the version that it names, and writes the outputs
// into the response. If the version's answers are kept and there is one for an
// equal request, that is the answer, and nothing is queued.
//
// Ownership: request and response are borrowed until Finished was called. The
// object must live until then.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "inference/grpc_service.pb.h"
#include "server/api/inference/bytes_in_flight.h"
#include "server/api/inference/request_tensors.h"
#include "server/api/inference/request_trace.h"
#include "server/serving/inference_call.h"
#include "server/serving/response_cache.h"
#include "server/serving/serving.h"
#include "server/trace/tracer.h"

namespace gpupool::server {

// Parts that all requests share. Borrowed; they must outlive the requests.
struct InferContext {
  const Serving* serving = nullptr;
  ServingObserver* observer = nullptr;  // may be null
  BytesInFlight* bytes_in_flight = nullptr;
  Tracer* tracer = nullptr;  // null: nothing is traced
};

class InferRequest : public InferenceCall {
 public:
  explicit InferRequest(const InferContext& context) : context_(context) {}

  // Begins the trace of the request, if there is a tracer and it chooses the
  // request. Call it before Start. `name` is one of request_trace.h.
  void BeginTrace(const TraceHeaders& headers, absl::string_view name);
  // Starts the request. Calls Finished exactly once, possibly before it
  // returns.
  void Start(const inference::ModelInferRequest& request,
             inference::ModelInferResponse* response, absl::Time deadline);
  // Drops the request if it still waits. May be called after Start has returned
  // and before the object is destroyed.
  void Cancel();

 protected:
  // Receives the end of the request; `response` is complete when `status` is
  // OK. May be called on any thread and may destroy the object.
  virtual void Finished(const absl::Status& status) = 0;

 private:
  absl::Status Prepare(const inference::ModelInferRequest& request,
                       absl::Time deadline);
  absl::Status Admit(const inference::ModelInferRequest& request);
  void OnAnswer(const absl::Status& status,
                absl::Span<const absl::Span<const std::byte>> outputs) override;

  // Answers the request if the cache has an answer. Returns false otherwise;
  // after true the object may be gone.
  bool AnswerFromCache(ResponseCache& cache);
  // Keeps the answer for equal requests that come later.
  void KeepAnswer(const ServedVersion& version);
  // Fills in which version answers.
  void NameVersion(const VersionFacts& facts);
  void EndTrace(const absl::Status& status, absl::string_view model,
                const ServedVersion* version);
  VersionHandle version() const;
  // Takes the version out of the request, which then no longer holds it.
  VersionHandle TakeVersion();

  const InferContext context_;
  inference::ModelInferResponse* response_ = nullptr;
  std::optional<BytesInFlight::Ticket> ticket_;
  mutable absl::Mutex mutex_;
  // Held until the request is answered only: a client may take for ever to read
  // the answer, and must not keep the version for so long.
  VersionHandle version_ ABSL_GUARDED_BY(mutex_);
  RequestTensors tensors_;
  std::vector<int> outputs_;
  std::optional<CacheKey> cache_key_;    // set when the cache is asked
  absl::Duration cache_lookup_;          // until it was known to have no answer
  std::unique_ptr<RequestTrace> trace_;  // null: not traced
};

}  // namespace gpupool::server
