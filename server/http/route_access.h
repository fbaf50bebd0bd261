// Private to server/http: who may take a route of the HTTP port. Each route
// names the rpc that it becomes, and the gate says whether the caller may make
// it, as it does for the same rpc over gRPC.
//
// Thread-safety: any thread. Ownership: the gate must outlive the guard.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/auth/access_gate.h"
#include "server/http/port/http_request.h"
#include "server/http/port/router.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace gpupool::server {

class GenericCall;

// Value of HttpRoute::calls for a path that is "/api" and the rpc.
inline constexpr char kPathBehindApi[] = "/api/**";

// Returns the guard of a port; null if everybody may take every route.
RouteGuard GuardOf(AccessGate* gate);

// Returns the rpc that a request becomes, "/package.Service/Method". Empty for
// a route that names none.
std::string MethodOf(const HttpRoute& route, const HttpRequest& request);

// Returns the value of the header Authorization. Empty if there is none,
// kEmptyAuthorization if it has no value. A text that is no token if there are
// several.
absl::string_view AuthorizationOf(const HttpRequest& request);

// Adds who calls to the metadata of a call that has not started: the header
// Authorization, by which services know the tenant, and for the audit log the
// address, the uid if it is known, and the header X-Request-Id. Leaves out what
// MayBeMetadata refuses.
void PassCaller(const HttpRequest& request, GenericCall* call);
void PassCaller(const HttpRequest& request, grpc::ClientContext* call);

}  // namespace gpupool::server
