// Private to server/api: where a call comes from. Calls over gRPC have it by
// their connection, calls over HTTP by the metadata that the HTTP port adds.
//
// Pure functions.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>

#include "server/auth/peer_user.h"

namespace gpupool::server {

// Metadata of a call on the server's side.
using CallMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

struct CallPeer {
  std::string address;  // for the audit log
  PeerUser user = {};   // of a call over TCP, as far as the ports ask for it
};

// Returns the first value of a key; empty if there is none.
std::string ValueOf(const CallMetadata& metadata, const char* key);

// Returns the peer of a call, whose metadata may still be on their way into its
// context.
CallPeer PeerOf(const grpc::ServerContextBase& context,
                const CallMetadata& metadata);

// Returns the peer of a call with this gRPC peer, and this uid noted by its
// guard. Metadata name it only for calls that come over no socket.
CallPeer PeerBy(const std::string& peer, const std::string& noted_uid,
                const CallMetadata& metadata);

}  // namespace gpupool::server
