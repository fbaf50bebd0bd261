#include "server/http/port/admission.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/port/request_parser.h"

namespace gpupool::server {
namespace {

// Returns the bytes that a body takes in memory at most.
uint64_t BytesInMemory(const HttpRequest& request,
                       std::optional<uint64_t> length, uint64_t most) {
  const uint64_t sent = length.value_or(most);
  // A compressed body is there twice while it is unpacked.
  return request.Count("Content-Encoding") > 0 ? sent + most : sent;
}

std::optional<HttpResponse> RefusalOf(const Route& route,
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

Admission Admit(const Route& route, const HttpRequest& request,
                const BodyFacts& body) {
  Admission admission;
  admission.refusal = RefusalOf(route, request, body);
  if (admission.refusal.has_value()) return admission;
  if (!body.there || route.bodies == nullptr) return admission;
  admission.place = route.bodies->Take(
      BytesInMemory(request, body.length, route.most_body_bytes));
  if (admission.place.has_value()) return admission;
  admission.refusal = route.error(
      absl::ResourceExhaustedError(absl::StrCat(
          "the bodies of requests over HTTP have ", route.bodies->most(),
          " bytes at a time, which is the most; retry later, or call by gRPC")),
      0);
  return admission;
}

}  // namespace gpupool::server
