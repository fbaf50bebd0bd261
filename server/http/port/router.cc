#include "server/http/port/router.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace gpupool::server {
namespace {

// Takes the text before the next slash, and the slash, from the front.
absl::string_view TakePart(absl::string_view* rest) {
  const size_t slash = rest->find('/');
  const absl::string_view part = rest->substr(0, slash);
  rest->remove_prefix(slash == rest->npos ? rest->size() : slash + 1);
  return part;
}

using Refuse = std::function<std::optional<HttpResponse>(const HttpRequest&)>;

// Returns a function that asks the guard first and the route itself then.
Refuse Guarded(const RouteGuard& guard, const HttpRoute& route) {
  return [guard,
          route](const HttpRequest& request) -> std::optional<HttpResponse> {
    const absl::Status allowed = guard(route, request);
    if (allowed.ok()) {
      if (route.refuse == nullptr) return std::nullopt;
      return route.refuse(request);
    }
    HttpResponse response = route.error(allowed, 0);
    // RFC 9110, 11.6.1.
    if (absl::IsUnauthenticated(allowed)) {
      response.Set("WWW-Authenticate", "Bearer realm=\"gpupool\"");
    }
    return response;
  };
}

}  // namespace

std::optional<std::vector<std::string>> MatchPath(absl::string_view pattern,
                                                  absl::string_view path) {
  std::vector<std::string> parts;
  // A slash behind the last part makes one more, which is empty.
  const bool pattern_slash = !pattern.empty() && pattern.back() == '/';
  const bool path_slash = !path.empty() && path.back() == '/';
  while (!pattern.empty()) {
    const absl::string_view wanted = TakePart(&pattern);
    if (wanted == "**") {
      if (path.empty()) return std::nullopt;
      parts.emplace_back(path);
      return parts;
    }
    if (path.empty()) return std::nullopt;
    const absl::string_view part = TakePart(&path);
    if (wanted == "*" && !part.empty()) {
      parts.emplace_back(part);
    } else if (wanted != part) {
      return std::nullopt;
    }
  }
  if (!path.empty() || pattern_slash != path_slash) return std::nullopt;
  return parts;
}

HttpRouter::HttpRouter(HttpRoute other, RouteGuard guard)
    : other_(std::move(other)), guard_(std::move(guard)) {}

void HttpRouter::Add(HttpRoute route) {
  if (route.error == nullptr) route.error = other_.error;
  if (guard_ != nullptr) route.refuse = Guarded(guard_, route);
  routes_.push_back(std::move(route));
}

HttpRouter::Match HttpRouter::Find(absl::string_view method,
                                   absl::string_view path) const {
  if (method == "HEAD") method = "GET";
  for (const HttpRoute& route : routes_) {
    if (route.method != method) continue;
    auto parts = MatchPath(route.pattern, path);
    if (parts.has_value()) return {&route, *std::move(parts), nullptr, {}};
  }
  return FindOther(path);
}

HttpRouter::Match HttpRouter::FindOther(absl::string_view path) const {
  Match match;
  match.route = &other_;
  std::vector<absl::string_view> methods;
  for (const HttpRoute& route : routes_) {
    if (!MatchPath(route.pattern, path).has_value()) continue;
    if (match.other_method == nullptr) match.other_method = &route;
    if (std::find(methods.begin(), methods.end(), route.method) !=
        methods.end()) {
      continue;
    }
    methods.push_back(route.method);
    if (route.method == "GET") methods.push_back("HEAD");
  }
  match.allow = absl::StrJoin(methods, ", ");
  return match;
}

}  // namespace gpupool::server
