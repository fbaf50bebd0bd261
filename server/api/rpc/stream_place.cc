#include "server/api/rpc/stream_place.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace gpupool::server {
namespace {

// Returns the address of a peer without its port. A client has many ports.
std::string MachineOf(absl::string_view address) {
  if (absl::ConsumePrefix(&address, "ipv4:") ||
      absl::ConsumePrefix(&address, "ipv6:")) {
    address = address.substr(0, address.rfind(':'));
  } else {
    absl::ConsumePrefix(&address, "http:");
  }
  return absl::StrReplaceAll(address, {{"%5B", ""}, {"%5D", ""}});
}

}  // namespace

StreamPlace PlaceIn(StreamRegistry* registry,
                    grpc::CallbackServerContext* context,
                    const absl::StatusOr<Identity>& caller) {
  grpc_call* call = context->c_call();
  grpc_call_ref(call);
  return {
      .registry = registry,
      .holder = HolderOf(caller, PeerOf(*context, context->client_metadata())),
      .call = {call, [](grpc_call* ended) { grpc_call_unref(ended); }}};
}

std::string HolderOf(const absl::StatusOr<Identity>& caller,
                     const CallPeer& peer) {
  if (caller.ok() && caller->token != 0) {
    return absl::StrCat("token ", caller->token);
  }
  if (peer.user.uid.has_value()) return absl::StrCat("uid ", *peer.user.uid);
  // The client chooses the name of its end of a socket.
  if (absl::StartsWith(peer.address, "unix")) return "the socket";
  return absl::StrCat("the machine ", MachineOf(peer.address));
}

void CancelCall(const StreamPlace& place, const absl::Status& status) {
  if (place.call == nullptr) return;
  const std::string words(status.message());
  grpc_call_cancel_with_status(place.call.get(),
                               static_cast<grpc_status_code>(status.code()),
                               words.c_str(), nullptr);
}

}  // namespace gpupool::server
