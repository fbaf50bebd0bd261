#include "server/http/port/admission.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/port/request_parser.h"

namespace gpupool::server {
namespace {

// The place of a body before it comes. Small, so that clients that send no more
// than headers do not take the places of others.
constexpr uint64_t kFirstPlace = 4 << 10;

std::optional<HttpResponse> RefusalOf(const HttpRoute& route,
                                      const HttpRequest& request,
                                      const BodyFacts& body) {
  const absl::string_view expects = request.Header("Expect");
  if (!expects.empty() && !absl::EqualsIgnoreCase(expects, "100-continue")) {
    return route.error(absl::InvalidArgumentError(
                           absl::StrCat("Expect is '", expects.substr(0, 80),
                                        "'; it must be 100-continue")),
                       417);
  }
  if (route.refuse != nullptr) {
    auto refusal = route.refuse(request);
    if (refusal.has_value()) return refusal;
  }
  const size_t most = route.most_body_bytes;
  if (body.there && body.length.value_or(0) > most) {
    return route.error(absl::ResourceExhaustedError(BodyTooLarge(most)), 413);
  }
  return std::nullopt;
}

}  // namespace

Admission AdmitRequest(const HttpRoute& route, const HttpRequest& request,
                       const BodyFacts& body) {
  Admission admission;
  admission.refusal = RefusalOf(route, request, body);
  if (admission.refusal.has_value()) return admission;
  if (!body.there || route.bodies == nullptr) return admission;
  const uint64_t most = PlaceFor(
      route, request, body.length.value_or(route.most_body_bytes), true);
  admission.place = route.bodies->Take(std::min(most, kFirstPlace));
  if (!admission.place.has_value()) admission.refusal = NoPlace(route);
  return admission;
}

uint64_t PlaceFor(const HttpRoute& route, const HttpRequest& request,
                  uint64_t bytes, bool whole) {
  // More is refused when it is read.
  bytes = std::min<uint64_t>(bytes, route.most_body_bytes);
  const bool unpacked = whole && request.Count("Content-Encoding") > 0;
  return unpacked ? bytes + route.most_body_bytes : bytes;
}

HttpResponse NoPlace(const HttpRoute& route) {
  return route.error(
      absl::ResourceExhaustedError(absl::StrCat(
          "the bodies of requests over HTTP have ", route.bodies->most(),
          " bytes at a time, which is the most; retry later, or call by gRPC")),
      0);
}

HttpResponse NoRoom(const ErrorWriter& error, uint64_t most) {
  return error(
      absl::UnavailableError(absl::StrCat(
          "the answers over HTTP that clients have not taken have ", most,
          " bytes, which is the most; retry later, or call by gRPC")),
      0);
}

absl::Status TooLate(const HttpDeadlines& deadlines) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the request took longer than ", absl::FormatDuration(deadlines.request),
      ", its headers longer than ", absl::FormatDuration(deadlines.headers),
      ", or its body paused for ", absl::FormatDuration(deadlines.body_pause)));
}

HttpResponse WrongMethod(const ErrorWriter& error, const HttpRequest& request,
                         const std::string& allow) {
  HttpResponse response = error(absl::UnimplementedError(absl::StrCat(
                                    "no ", request.method.substr(0, 80), " ",
                                    request.path, "; its methods are ", allow)),
                                405);
  response.Set("Allow", allow);
  return response;
}

HttpResponse NoThread(const HttpRoute& route, bool stopping) {
  return route.error(
      absl::UnavailableError(stopping ? "the server is shutting down"
                                      : "too many requests wait over HTTP; "
                                        "retry later, or call by gRPC"),
      0);
}

}  // namespace gpupool::server
