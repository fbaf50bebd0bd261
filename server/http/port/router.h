// The routes of the HTTP port, and which one a request takes.
//
// Thread-safety: Find may be called from any thread when no more routes are
// added. Ownership: the router owns its routes, not what they call.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/http/port/body_budget.h"
#include "server/http/port/http_request.h"
#include "server/http/port/http_response.h"

namespace gpupool::server {

// The threads on which requests are answered. Each lane has threads of its own,
// so that no other lane can delay it.
enum class Lane {
  kHere,    // the thread of the port itself; the answer must not block
  kHealth,  // probes
  kGet,     // other short questions
  kPost,    // inferences and changes
  kApi,     // calls and streams of the JSON API
};
inline constexpr size_t kLanes = 5;

// Value of HttpRoute::calls for a route that shows nothing of the server's
// state.
inline constexpr char kOpenToAll[] = "open to all";

struct HttpRoute {
  std::string method;
  // The path, where "*" is any part between slashes, and "**" at the end is any
  // rest, but not an empty one: "/v2/models/*/infer", "/web/**".
  std::string pattern;
  // The rpc that the route becomes, for the guard of the router. Empty:
  // nobody may take the route, if there is a guard.
  std::string calls;
  Lane lane = Lane::kHere;
  // A larger body is answered with 413.
  size_t most_body_bytes = 64 << 10;
  // Bounds the bodies in memory. Null: the route needs no body, and it is
  // dropped while it comes.
  BodyBudget* bodies = nullptr;
  // Looks at a request without its body, and returns the answer if it is
  // refused. Runs on the thread of the port, so it must not block. May be null.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> refuse;
  // Answers a request. May take its body.
  std::function<HttpResponse(HttpRequest&)> answer;
  // Makes answers for what the port itself finds wrong. Null: the router's.
  ErrorWriter error;
};

// Says whether a request may take a route, before anything else looks at it.
// Runs on the thread of the port, so it must not block.
using RouteGuard =
    std::function<absl::Status(const HttpRoute&, const HttpRequest&)>;

class HttpRouter {
 public:
  struct Match {
    const HttpRoute* route = nullptr;
    std::vector<std::string> parts;
    // The first route of the path, and the methods of all its routes, as in
    // "GET, HEAD", if the request has another method; null and empty otherwise.
    const HttpRoute* other_method = nullptr;
    std::string allow;
  };

  // Takes the route of requests that take no other, whose method and pattern do
  // not matter. It has an `error`.
  // `guard` looks at the requests of all routes that are added; null: there is
  // none.
  explicit HttpRouter(HttpRoute other, RouteGuard guard = nullptr);

  // Adds a route. The first one that fits is taken.
  void Add(HttpRoute route);

  // Returns the route of a request, and the parts of the path that its pattern
  // leaves open. HEAD takes the routes of GET.
  Match Find(absl::string_view method, absl::string_view path) const;

  const HttpRoute& other() const { return other_; }
  const std::vector<HttpRoute>& routes() const { return routes_; }

 private:
  // Returns what a request gets that no route fits.
  Match FindOther(absl::string_view path) const;

  HttpRoute other_;
  RouteGuard guard_;
  std::vector<HttpRoute> routes_;
};

// Returns the parts of a path that the pattern leaves open; nothing if it does
// not fit.
std::optional<std::vector<std::string>> MatchPath(absl::string_view pattern,
                                                  absl::string_view path);

}  // namespace gpupool::server
