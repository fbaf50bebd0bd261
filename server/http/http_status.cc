#include "server/http/http_status.h"

#include "nlohmann/json.hpp"
#include "server/http/rest/rest_json.h"

namespace gpupool::server {

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string StatusJson(absl::StatusCode code, absl::string_view message) {
  const nlohmann::ordered_json json = {{"code", absl::StatusCodeToString(code)},
                                       {"message", std::string(message)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HttpResponse ErrorAnswer(const absl::Status& error, int http_status) {
  return JsonAnswer(http_status != 0 ? http_status : HttpStatusOf(error.code()),
                    ErrorJson(std::string(error.message())));
}

}  // namespace gpupool::server
