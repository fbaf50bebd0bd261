// The check of every call that comes over the gRPC port, before any handler
// sees it. Also of methods that nobody has registered, of health and of
// reflection. Calls over the in-process channel do not come by here: the HTTP
// port checks them.
//
// Thread-safety: any thread; nothing blocks. Ownership: the gate must outlive
// the server.
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

class MethodGuard : public grpc::AuthMetadataProcessor {
 public:
  // Checks calls that come in by `door`. Over kPort the user is not known until
  // SetUser.
  explicit MethodGuard(AccessGate* gate, Door door = Door::kPort);

  // Says who makes all calls of the guard. Call it before the first of their
  // connections reaches the server.
  void SetUser(const PeerUser& user);

  // Runs on the thread that reads the call.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

  // Checks a call by its metadata, of which ":path" is the method.
  grpc::Status Check(const InputMetadata& metadata) const;

  // The properties of a connection.
  class Properties {
   public:
    virtual ~Properties() = default;
    virtual bool Has(const char* name) const = 0;
    virtual void Add(const char* name, const std::string& value) = 0;
  };

  // Notes the uid, if it is known, among the properties of a connection, from
  // which UidOf has it. All calls of the connection come by this guard. So the
  // first of them writes, and the others, and the handlers of all, only read.
  void NoteUid(Properties& properties);

 private:
  PeerUser user() const;

  AccessGate* const gate_;
  const Door door_;
  std::atomic<int64_t> user_;  // a uid, or one of the numbers of the source
  absl::Mutex noting_;
};

// Returns the uid that a guard has noted; empty if there is none.
std::string UidOf(const grpc::AuthContext& context);

// Returns the value of the header `authorization`. Empty if there is none,
// kEmptyAuthorization if it has no value. A text that is no token if there are
// several.
absl::string_view AuthorizationIn(
    const grpc::AuthMetadataProcessor::InputMetadata& metadata);

// Returns where a call with this gRPC peer came in.
Door DoorOf(absl::string_view peer);

// Returns credentials of a plain port whose calls the guard checks; null: none
// is checked. Those of gRPC take no guard. The address may be "unix:PATH": the
// socket is made so that only the user of this process and root can open it.
// The process's umask is changed for that moment.
std::shared_ptr<grpc::ServerCredentials> GuardedPlainCredentials(
    std::shared_ptr<MethodGuard> guard);

}  // namespace gpupool::server
