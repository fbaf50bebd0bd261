#include "server/api/rpc/call_peer.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "server/api/rpc/method_guard.h"
#include "server/auth/call_record.h"

namespace gpupool::server {
namespace {

// Returns whether a call with this gRPC peer comes over a socket.
bool IsOverSocket(const std::string& peer) {
  for (const char* scheme : {"ipv4:", "ipv6:", "unix:", "unix-abstract:"}) {
    if (absl::StartsWith(peer, scheme)) return true;
  }
  return false;
}

}  // namespace

std::string ValueOf(const CallMetadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return {};
  return {found->second.data(), found->second.size()};
}

CallPeer PeerOf(const grpc::ServerContextBase& context,
                const CallMetadata& metadata) {
  const std::string peer = context.peer();
  return PeerBy(peer, IsOverSocket(peer) ? UidOf(*context.auth_context()) : "",
                metadata);
}

CallPeer PeerBy(const std::string& peer, const std::string& noted_uid,
                const CallMetadata& metadata) {
  CallPeer found{.address = peer};
  std::string uid = noted_uid;
  if (!IsOverSocket(peer)) {
    const std::string over_http = ValueOf(metadata, kHttpPeerKey);
    if (!over_http.empty()) found.address = over_http;
    uid = ValueOf(metadata, kHttpUidKey);
  }
  uid_t number = 0;
  if (absl::SimpleAtoi(uid, &number)) found.user.uid = number;
  return found;
}

}  // namespace gpupool::server
