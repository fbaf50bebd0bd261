#include "server/api/rpc/call_auditor.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "audit/audit_record.h"
#include "server/api/rpc/call_object.h"
#include "server/api/rpc/call_peer.h"
#include "server/api/rpc/method_guard.h"
#include "server/auth/call_record.h"
#include "server/auth/method_roles.h"

namespace gpupool::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class CallAuditor : public grpc::experimental::Interceptor {
 public:
  CallAuditor(AccessGate* gate, Effect effect, ServerRpcInfo* call)
      : gate_(gate), effect_(effect), call_(call) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    using Point = InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_INITIAL_METADATA)) {
      TakeMetadata(batch->GetRecvInitialMetadata());
    }
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      TakeMessage(batch->GetRecvMessage(), &has_request_);
    }
    if (batch->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE)) {
      TakeMessage(batch->GetSendMessage(), &has_answer_);
    }
    if (batch->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      End(static_cast<absl::StatusCode>(batch->GetSendStatus().error_code()));
    }
    batch->Proceed();
  }

 private:
  void TakeMetadata(const CallMetadata* metadata) {
    if (metadata == nullptr) return;
    absl::MutexLock lock(&mutex_);
    authorization_ = std::string(AuthorizationIn(*metadata));
    peer_ = PeerOf(*call_->server_context(), *metadata);
    // Now, since the call may revoke the caller's own token.
    if (effect_ == Effect::kChanges) {
      record_ = RecordOf(*gate_, authorization_, CallerNow());
    }
    record_.request_id = ValueOf(*metadata, "x-request-id");
  }

  // Returns the caller, whom a door has let in.
  Caller CallerNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return {.door = DoorOf(call_->server_context()->peer()),
            .user = peer_.user,
            .peer = peer_.address,
            .admitted = true};
  }

  // Takes the first message of a direction; null if there is none. All methods
  // of ours have messages of protobuf, whose classes have Message as their only
  // base, so that both have the same address.
  void TakeMessage(const void* message, bool* taken) {
    if (message == nullptr || effect_ != Effect::kChanges) return;
    absl::MutexLock lock(&mutex_);
    if (std::exchange(*taken, true)) return;
    object_.Take(*static_cast<const google::protobuf::Message*>(message));
  }

  void End(absl::StatusCode code) {
    if (effect_ != Effect::kChanges && !IsDenial(code)) return;
    absl::MutexLock lock(&mutex_);
    audit::Record record = effect_ == Effect::kChanges
                               ? record_
                               : RecordOf(*gate_, authorization_, CallerNow());
    record.request_id = object_.request_id().empty() ? record_.request_id
                                                     : object_.request_id();
    record.method = call_->method();
    record.object = object_.Text();
    SetOutcome(code, &record);
    gate_->log()->Note(std::move(record));
  }

  AccessGate* const gate_;
  const Effect effect_;
  ServerRpcInfo* const call_;
  absl::Mutex mutex_;
  std::string authorization_ ABSL_GUARDED_BY(mutex_);
  CallPeer peer_ ABSL_GUARDED_BY(mutex_);
  audit::Record record_ ABSL_GUARDED_BY(mutex_);
  CallObject object_ ABSL_GUARDED_BY(mutex_);
  bool has_request_ = false;  // both: changed in TakeMessage alone
  bool has_answer_ = false;
};

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(AccessGate* gate) : gate_(gate) {}

  // Null: the call needs no auditor.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* call) override {
    const absl::string_view method = call->method();
    const Effect effect = EffectOf(method).value_or(Effect::kChanges);
    if (effect == Effect::kInfers || absl::StartsWith(method, "/grpc.") ||
        LeastRoleFor(method) == v1::ROLE_UNSPECIFIED) {
      return nullptr;
    }
    return new CallAuditor(gate_, effect, call);
  }

 private:
  AccessGate* const gate_;
};

}  // namespace

std::vector<
    std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
CallAuditors(AccessGate* gate) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      auditors;
  if (gate != nullptr && gate->log() != nullptr) {
    auditors.push_back(std::make_unique<Factory>(gate));
  }
  return auditors;
}

}  // namespace gpupool::server
