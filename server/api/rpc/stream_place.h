// Private to server/api: who asks for a place among the streams of a kind, and
// how that call is ended while it waits for its client.
//
// Thread-safety: any thread.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/api/rpc/call_peer.h"
#include "server/api/rpc/stream_registry.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

struct StreamPlace {
  StreamRegistry* registry = nullptr;  // must outlive the stream
  std::string holder;                  // whose places are counted together
  std::shared_ptr<grpc_call> call;     // null: none, in tests
};

// Returns the place for the stream of a call.
StreamPlace PlaceIn(StreamRegistry* registry,
                    grpc::CallbackServerContext* context,
                    const absl::StatusOr<Identity>& caller);

// Returns the name of a caller for the limit of one caller: that of its token.
// Without one, that of its user, else of its machine, else of the socket. A
// caller cannot choose it.
std::string HolderOf(const absl::StatusOr<Identity>& caller,
                     const CallPeer& peer);

// Ends the call with this status, which reaches the client even if it takes
// nothing else. What is being read or written then fails.
void CancelCall(const StreamPlace& place, const absl::Status& status);

}  // namespace gpupool::server
