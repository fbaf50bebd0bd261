#include "server/api/inference/shared_regions.h"

#include <grpcpp/server_context.h>
#include <unistd.h>

#include "engine/base/status_macros.h"
#include "server/api/rpc/call_peer.h"
#include "server/api/rpc/method_guard.h"
#include "server/api/rpc/tenant_access.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

absl::StatusOr<RegionCaller> SharedRegions::CallerOf(
    const grpc::CallbackServerContext& context) const {
  ASSIGN_OR_RETURN(const Identity identity, server::CallerOf(gate_, context));
  RegionCaller caller{.tenant = identity.tenant};
  if (DoorOf(context.peer()) == Door::kSocket) {
    caller.user = ::geteuid();
  } else {
    caller.user = PeerOf(context, context.client_metadata()).user.uid;
  }
  return caller;
}

}  // namespace gpupool::server
