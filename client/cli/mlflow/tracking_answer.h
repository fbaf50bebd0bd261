// Meaning of the answers of an MLflow server. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace gpupool::client {

// An answer over HTTP.
struct TrackingAnswer {
  std::string server;  // URL of the server
  std::string call;    // for example "runs/create"
  int http_status = 0;
  std::string location;  // of a redirection
  std::string body;
};

// Returns the JSON object of an answer with HTTP 200. Otherwise an error that
// has MLflow's error_code and message, if it sent them, and a remedy:
//   Unavailable         HTTP 429 or 5xx: a later try may succeed
//   Unauthenticated     HTTP 401
//   PermissionDenied    HTTP 403
//   NotFound            RESOURCE_DOES_NOT_EXIST
//   AlreadyExists       RESOURCE_ALREADY_EXISTS
//   InvalidArgument     MLflow refuses a value, or the URL is not that of an
//                       MLflow server: no JSON, a redirection, HTTP 404
//   FailedPrecondition  other refusals
absl::StatusOr<nlohmann::json> ReadAnswer(const TrackingAnswer& answer);

}  // namespace gpupool::client
