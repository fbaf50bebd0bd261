#include "server/api/rpc/method_guard.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <sys/stat.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/api/rpc/grpc_status.h"

namespace gpupool::server {
namespace {

using InputMetadata = grpc::AuthMetadataProcessor::InputMetadata;
using SharedGuard = std::shared_ptr<MethodGuard>;

constexpr absl::string_view kSocketScheme = "unix:";
constexpr char kUidProperty[] = "gpupool_uid";
// Values of MethodGuard::user_ that are no uid.
constexpr int64_t kNotKnown = -1;
constexpr int64_t kOtherMachine = -2;

// Properties as gRPC's C++ has them.
class PortProperties : public MethodGuard::Properties {
 public:
  explicit PortProperties(grpc::AuthContext* context) : context_(context) {}
  bool Has(const char* name) const override {
    return !context_->FindPropertyValues(name).empty();
  }
  void Add(const char* name, const std::string& value) override {
    context_->AddProperty(name, value);
  }

 private:
  grpc::AuthContext* const context_;
};

// Properties as gRPC's core has them.
class CoreProperties : public MethodGuard::Properties {
 public:
  explicit CoreProperties(grpc_auth_context* context) : context_(context) {}
  bool Has(const char* name) const override {
    grpc_auth_property_iterator found =
        grpc_auth_context_find_properties_by_name(context_, name);
    return grpc_auth_property_iterator_next(&found) != nullptr;
  }
  void Add(const char* name, const std::string& value) override {
    grpc_auth_context_add_cstring_property(context_, name, value.c_str());
  }

 private:
  grpc_auth_context* const context_;
};

grpc::string_ref TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

// Returns a processor for gRPC's core that owns a reference to the guard.
grpc_auth_metadata_processor ProcessorOf(const SharedGuard& guard) {
  grpc_auth_metadata_processor processor = {};
  processor.state = new SharedGuard(guard);
  processor.destroy = [](void* state) {
    delete static_cast<SharedGuard*>(state);
  };
  processor.process = [](void* state, grpc_auth_context* context,
                         const grpc_metadata* entries, size_t count,
                         grpc_process_auth_metadata_done_cb done,
                         void* user_data) {
    InputMetadata metadata;
    for (size_t i = 0; i < count; ++i) {
      metadata.emplace(TextOf(entries[i].key), TextOf(entries[i].value));
    }
    MethodGuard& guard = **static_cast<SharedGuard*>(state);
    CoreProperties properties(context);
    guard.NoteUid(properties);
    const grpc::Status status = guard.Check(metadata);
    done(user_data, nullptr, 0, nullptr, 0,
         static_cast<grpc_status_code>(status.error_code()),
         status.ok() ? nullptr : status.error_message().c_str());
  };
  return processor;
}

// Listens at the address. Returns the port, 1 for a socket, or 0 on failure.
int AddPort(grpc_server* server, const std::string& address,
            grpc_server_credentials* credentials) {
  if (!absl::StartsWith(address, kSocketScheme)) {
    return grpc_server_add_http2_port(server, address.c_str(), credentials);
  }
  // gRPC takes the path for that of a URI, in which "%41" is an A.
  const std::string escaped = absl::StrReplaceAll(address, {{"%", "%25"}});
  // gRPC listens at once, so the socket must never be open to others. Files
  // that other threads make in this moment are private, too.
  const mode_t mask = umask(0077);
  const int port =
      grpc_server_add_http2_port(server, escaped.c_str(), credentials);
  umask(mask);
  // The default access list of a folder takes precedence over the umask.
  const std::string path = address.substr(kSocketScheme.size());
  return port > 0 && chmod(path.c_str(), 0600) == 0 ? port : 0;
}

class PlainPort : public grpc::ServerCredentials {
 public:
  explicit PlainPort(SharedGuard guard) : guard_(std::move(guard)) {}

  // The guard is given once and for all.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    grpc_server_credentials* credentials =
        grpc_insecure_server_credentials_create();
    if (guard_ != nullptr) {
      grpc_server_credentials_set_auth_metadata_processor(credentials,
                                                          ProcessorOf(guard_));
    }
    const int port = AddPort(server, address, credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  bool IsInsecure() const override { return true; }

  const SharedGuard guard_;
};

}  // namespace

MethodGuard::MethodGuard(AccessGate* gate, Door door)
    : gate_(gate), door_(door), user_(kNotKnown) {}

void MethodGuard::SetUser(const PeerUser& user) {
  if (user.uid.has_value()) {
    user_ = *user.uid;
  } else {
    user_ = user.other_machine ? kOtherMachine : kNotKnown;
  }
}

PeerUser MethodGuard::user() const {
  const int64_t user = user_;
  if (user < 0) return {.other_machine = user == kOtherMachine};
  return {.uid = static_cast<uid_t>(user)};
}

void MethodGuard::NoteUid(Properties& properties) {
  const PeerUser known = user();
  if (!known.uid.has_value()) return;
  absl::MutexLock lock(&noting_);
  if (properties.Has(kUidProperty)) return;
  properties.Add(kUidProperty, absl::StrCat(*known.uid));
}

grpc::Status MethodGuard::Process(const InputMetadata& metadata,
                                  grpc::AuthContext* context, OutputMetadata*,
                                  OutputMetadata*) {
  PortProperties properties(context);
  NoteUid(properties);
  return Check(metadata);
}

grpc::Status MethodGuard::Check(const InputMetadata& metadata) const {
  const auto path = metadata.find(":path");
  if (path == metadata.end()) {
    return ToGrpc(absl::PermissionDeniedError("the call names no method"));
  }
  const absl::string_view method(path->second.data(), path->second.size());
  const Caller caller{.door = door_,
                      .user = user(),
                      .peer = door_ == Door::kSocket ? kSocketScheme : ""};
  return ToGrpc(
      gate_->Admit(method, AuthorizationIn(metadata), caller).status());
}

std::string UidOf(const grpc::AuthContext& context) {
  const auto found = context.FindPropertyValues(kUidProperty);
  if (found.empty()) return {};
  return {found.front().data(), found.front().size()};
}

absl::string_view AuthorizationIn(const InputMetadata& metadata) {
  const size_t count = metadata.count("authorization");
  if (count == 0) return {};
  if (count > 1) return "several headers";
  const grpc::string_ref& value = metadata.find("authorization")->second;
  if (value.empty()) return kEmptyAuthorization;
  return {value.data(), value.size()};
}

Door DoorOf(absl::string_view peer) {
  // A client may have bound its own end to a name, also to an abstract one.
  return absl::StartsWith(peer, kSocketScheme) ||
                 absl::StartsWith(peer, "unix-abstract:")
             ? Door::kSocket
             : Door::kPort;
}

std::shared_ptr<grpc::ServerCredentials> GuardedPlainCredentials(
    std::shared_ptr<MethodGuard> guard) {
  return std::make_shared<PlainPort>(std::move(guard));
}

}  // namespace gpupool::server
