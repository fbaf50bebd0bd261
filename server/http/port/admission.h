// Private to server/http/port: whether a request may go on when its headers are
// read and its body is not.
//
// Pure function, but for the place that it takes.
#pragma once

#include <cstdint>
#include <optional>

#include "server/http/port/body_budget.h"
#include "server/http/port/http_request.h"
#include "server/http/port/http_response.h"
#include "server/http/port/router.h"

namespace gpupool::server {

struct BodyFacts {
  bool there = false;
  std::optional<uint64_t> length;  // nothing for a body in chunks
};

struct Admission {
  std::optional<HttpResponse> refusal;
  // The place of the body, if the route keeps bodies; keep it as long as the
  // body is needed.
  std::optional<BodyBudget::Place> place;
};

// Returns the answer for a request that is refused by its headers: an unknown
// Expect, what the route refuses, a body above the limit, or one that does not
// fit beside the others. Takes a place for the body otherwise.
Admission Admit(const Route& route, const HttpRequest& request,
                const BodyFacts& body);

}  // namespace gpupool::server
