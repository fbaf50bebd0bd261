#include "server/http/route_access.h"

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/auth/call_record.h"
#include "server/http/generic_call.h"
#include "server/http/trace_headers.h"

namespace gpupool::server {
namespace {

template <typename Call>
void AddCaller(const HttpRequest& request, Call* call) {
  const std::string peer = absl::StrCat("http:", request.remote);
  if (MayBeMetadata(peer)) call->AddMetadata(kHttpPeerKey, peer);
  if (request.user.uid.has_value()) {
    call->AddMetadata(kHttpUidKey, absl::StrCat(*request.user.uid));
  }
  const absl::string_view id = request.Header("X-Request-Id");
  if (MayBeMetadata(id)) call->AddMetadata("x-request-id", std::string(id));
  const std::string value(AuthorizationOf(request));
  if (MayBeMetadata(value)) call->AddMetadata("authorization", value);
}

}  // namespace

RouteGuard GuardOf(AccessGate* gate) {
  if (gate == nullptr || !gate->checks_calls()) return nullptr;
  return [gate](const HttpRoute& route, const HttpRequest& request) {
    if (route.calls == kOpenToAll) return absl::OkStatus();
    const std::string peer = absl::StrCat("http:", request.remote);
    return gate
        ->Admit(MethodOf(route, request), AuthorizationOf(request),
                {.user = request.user, .peer = peer})
        .status();
  };
}

std::string MethodOf(const HttpRoute& route, const HttpRequest& request) {
  if (route.calls != kPathBehindApi) return route.calls;
  absl::string_view path = request.path;
  absl::ConsumePrefix(&path, "/api");
  return std::string(path);
}

absl::string_view AuthorizationOf(const HttpRequest& request) {
  const size_t count = request.Count("Authorization");
  if (count > 1) return "several headers";
  const absl::string_view value = request.Header("Authorization");
  return count == 1 && value.empty() ? kEmptyAuthorization : value;
}

void PassCaller(const HttpRequest& request, GenericCall* call) {
  AddCaller(request, call);
}

void PassCaller(const HttpRequest& request, grpc::ClientContext* call) {
  AddCaller(request, call);
}

}  // namespace gpupool::server
