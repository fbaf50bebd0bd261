// Private to server/http/port: whether a request may go on when its headers are
// read and its body is not, and the answers of the port for those that may not.
//
// Pure functions, but for the place that AdmitRequest takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/http/port/body_budget.h"
#include "server/http/port/http_deadlines.h"
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
// fit beside the others. Takes a place for the beginning of the body otherwise:
// a client that only announces a large body keeps no one else from sending one.
Admission AdmitRequest(const HttpRoute& route, const HttpRequest& request,
                       const BodyFacts& body);

// Returns how large the place of a body must be when `bytes` of it have come.
// If that is the whole body, its unpacked bytes need room, too.
uint64_t PlaceFor(const HttpRoute& route, const HttpRequest& request,
                  uint64_t bytes, bool whole);

// Returns the answer for a body that does not fit beside the others.
HttpResponse NoPlace(const HttpRoute& route);

// Returns the answer in place of one that does not fit beside the `most` bytes
// of answers that clients have not taken.
HttpResponse NoRoom(const ErrorWriter& error, uint64_t most);

// Returns the error of a request that comes too slowly.
absl::Status TooLate(const HttpDeadlines& deadlines);

// Returns the answer for a path that does not have the method of the request.
// `allow` is the methods that it has, as in "GET, HEAD".
HttpResponse WrongMethod(const ErrorWriter& error, const HttpRequest& request,
                         const std::string& allow);

// Returns the answer when too many requests wait for a thread, or the port
// stops.
HttpResponse NoThread(const HttpRoute& route, bool stopping);

}  // namespace gpupool::server
