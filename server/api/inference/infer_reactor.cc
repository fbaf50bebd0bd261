#include <string>

#include "server/api/inference/infer_reactors.h"
#include "server/api/rpc/grpc_status.h"
#include "server/api/rpc/trace_headers.h"

namespace gpupool::server {
namespace {

class InferReactor final : public grpc::ServerUnaryReactor,
                           private InferRequest {
 public:
  explicit InferReactor(const InferContext& infer_context)
      : InferRequest(infer_context),
        access_(infer_context.access),
        regions_(infer_context.regions),
        traces_(infer_context.tracer != nullptr) {}

  void Run(grpc::CallbackServerContext* context,
           const inference::ModelInferRequest& request,
           inference::ModelInferResponse* response) {
    if (traces_) {
      std::string joined;
      BeginTrace(TraceHeadersOf(context->client_metadata(), &joined),
                 kInferSpan);
    }
    if (access_ != nullptr) SetCaller(access_->CallerOf(*context));
    if (regions_ != nullptr && NamesRegions(request)) {
      SetRegionCaller(regions_->CallerOf(*context));
    }
    Start(request, response, DeadlineOf(*context));
  }

 private:
  // gRPC calls this after the handler has returned, so after Start.
  void OnCancel() override { Cancel(); }
  void OnDone() override { delete this; }
  // Lets gRPC call OnDone and OnCancel on the thread that ends the call. Both
  // are short, and the default is to wake a thread of an executor for each.
  bool InternalInlineable() override { return true; }
  void Finished(const absl::Status& status) override { Finish(ToGrpc(status)); }

  const TenantAccess* const access_;
  const SharedRegions* const regions_;
  const bool traces_;
};

}  // namespace

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max()
             ? absl::InfiniteFuture()
             : absl::FromChrono(deadline);
}

grpc::ServerUnaryReactor* StartInfer(
    const InferContext& infer_context, grpc::CallbackServerContext* context,
    const inference::ModelInferRequest* request,
    inference::ModelInferResponse* response) {
  auto* reactor = new InferReactor(infer_context);
  reactor->Run(context, *request, response);
  return reactor;
}

}  // namespace gpupool::server
