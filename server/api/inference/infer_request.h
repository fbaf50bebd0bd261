// One ModelInferRequest on its way to an answer, from either rpc. A request to
// a decoupled version has any number of responses before its end. It checks the
// request, queues it with the version that it names, and writes the outputs
// into the response. If the version's answers are kept and there is one for an
// equal request, that is the answer, and nothing is queued.
//
// Ownership: request and response are borrowed until Finished was called. The
// object must live until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "inference/grpc_service.pb.h"
#include "server/api/inference/bytes_in_flight.h"
#include "server/api/inference/request_tensors.h"
#include "server/api/inference/request_trace.h"
#include "server/api/inference/shared_regions.h"
#include "server/api/rpc/tenant_access.h"
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
  // The rules for callers. Null: all callers may use all models.
  const TenantAccess* access = nullptr;
  const SharedRegions* regions = nullptr;  // null: shared memory is off
};

class InferRequest : public InferenceCall {
 public:
  explicit InferRequest(const InferContext& context) : context_(context) {}

  // Begins the trace of the request, if there is a tracer and it chooses the
  // request. Call it before Start. `name` is one of request_trace.h.
  void BeginTrace(const TraceHeaders& headers, absl::string_view name);
  // Sets who calls, or why that is not known. Call it before Start.
  void SetCaller(const absl::StatusOr<Identity>& caller) { caller_ = caller; }
  // Sets the same for shared memory. Call it before Start of a request that
  // names some.
  void SetRegionCaller(const absl::StatusOr<RegionCaller>& caller) {
    region_caller_ = caller;
  }
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

  // Returns whether the rpc can carry several responses. Requests of others to
  // decoupled versions are refused.
  virtual bool TakesResponses() const { return false; }
  // Receives a response of a decoupled version, which is in the message that
  // Start was given. The next one is written there after Continue was called,
  // and Finished may be called before that. Must not block.
  virtual void Responded() {}
  // Asks for the next response of a decoupled version. May be called in
  // Responded, and as Cancel may.
  void Continue();

  // Whether the version is decoupled. Its Finished leaves the message of Start
  // alone. Known after Start, and in Responded and Finished.
  bool decoupled() const { return decoupled_; }
  // Whether the client asks for a last response without outputs.
  bool wants_empty_final() const { return wants_empty_final_; }
  // Fills in the id and the version that answers.
  void FillIdentity(inference::ModelInferResponse* response) const;

 private:
  absl::Status Prepare(const inference::ModelInferRequest& request,
                       absl::Time deadline);
  absl::Status Admit(const inference::ModelInferRequest& request);
  // Returns the version that answers, if the caller may use it.
  absl::StatusOr<VersionHandle> Route(
      const inference::ModelInferRequest& request) const;
  // Takes a ticket for bytes of the request.
  absl::Status AdmitBytes(uint64_t bytes,
                          std::optional<BytesInFlight::Ticket>* ticket);
  // Finds the tensors in shared memory, and takes a ticket for their copies.
  // `label` is the version's name in messages.
  absl::Status FindRegions(absl::string_view label,
                           const inference::ModelInferRequest& request);
  void OnAnswer(const absl::Status& status,
                absl::Span<const absl::Span<const std::byte>> outputs) override;
  void OnResponse(
      absl::Span<const absl::Span<const std::byte>> outputs) override;
  // Adds an output of the version to the response.
  void Add(const VersionFacts& facts, const AskedOutput& asked,
           absl::Span<const std::byte> bytes);

  // Answers the request if the cache has an answer. Returns false otherwise;
  // after true the object may be gone.
  bool AnswerFromCache(ResponseCache& cache);
  // Keeps the answer for equal requests that come later.
  void KeepAnswer(const ServedVersion& version);
  void EndTrace(const absl::Status& status, absl::string_view model,
                const ServedVersion* version);
  VersionHandle version() const;
  // Takes the version out of the request, which then no longer holds it.
  VersionHandle TakeVersion();

  const InferContext context_;
  absl::StatusOr<Identity> caller_ = Identity{};
  absl::StatusOr<RegionCaller> region_caller_ = RegionCaller{};
  inference::ModelInferResponse* response_ = nullptr;
  std::optional<BytesInFlight::Ticket> ticket_;
  std::optional<BytesInFlight::Ticket> copies_ticket_;  // of shared memory
  mutable absl::Mutex mutex_;
  // Held until the request is answered only: a client may take for ever to read
  // the answer, and must not keep the version for so long.
  VersionHandle version_ ABSL_GUARDED_BY(mutex_);
  RegionPlaces places_;  // held until the request is answered, too
  RequestTensors tensors_;
  std::vector<AskedOutput> outputs_;
  // Set in Start: the request's id, and the version's name and number.
  std::string id_, model_, number_;
  bool decoupled_ = false;
  bool wants_empty_final_ = false;
  uint32_t responses_ = 0;               // of a decoupled version, so far
  std::optional<CacheKey> cache_key_;    // set when the cache is asked
  absl::Duration cache_lookup_;          // until it was known to have no answer
  std::unique_ptr<RequestTrace> trace_;  // null: not traced
};

}  // namespace gpupool::server
