#include "client/cli/mlflow/tracking_answer.h"

#include "absl/strings/str_cat.h"
#include "client/text/quote.h"

namespace gpupool::client {
namespace {

constexpr int kHttpOk = 200;
constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr int kNoSuchPath = 404;
constexpr int kNoSuchMethod = 405;
constexpr int kTooManyRequests = 429;
// The longest part of a foreign message that is printed.
constexpr size_t kLongestMessage = 400;

// An error as MLflow writes it; empty texts if the body is something else.
struct TrackingError {
  std::string code;
  std::string message;
};

TrackingError ErrorIn(const nlohmann::json& body) {
  TrackingError error;
  if (!body.is_object()) return error;
  const auto take = [&](const char* key, std::string& text) {
    const auto found = body.find(key);
    if (found != body.end() && found->is_string()) {
      text = found->get<std::string>();
    }
  };
  take("error_code", error.code);
  take("message", error.message);
  return error;
}

// Returns the start of a message for a terminal.
std::string Shown(absl::string_view message) {
  if (message.size() <= kLongestMessage) return Printable(message);
  return absl::StrCat(Printable(message.substr(0, kLongestMessage)), "...");
}

absl::Status NotATrackingServer(const TrackingAnswer& answer,
                                absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no MLflow tracking server at ", answer.server, ": ", what,
      "; check the host, the port and the path of the URL"));
}

// Returns "MLflow at URL refuses CALL: CODE: MESSAGE (HTTP 400)".
std::string Refusal(const TrackingAnswer& answer, const TrackingError& error) {
  std::string text =
      absl::StrCat("MLflow at ", answer.server, " refuses ", answer.call, ": ");
  if (!error.code.empty()) absl::StrAppend(&text, Shown(error.code), ": ");
  // Answers of proxies and of the authentication are plain texts, or pages.
  const bool is_page = answer.body.find('<') != std::string::npos;
  if (!error.code.empty()) {
    absl::StrAppend(&text, Shown(error.message), " ");
  } else if (!is_page && !answer.body.empty()) {
    absl::StrAppend(&text, Shown(answer.body), " ");
  }
  return absl::StrCat(text, "(HTTP ", answer.http_status, ")");
}

absl::Status StatusOf(const TrackingAnswer& answer,
                      const TrackingError& error) {
  const std::string refusal = Refusal(answer, error);
  const int http = answer.http_status;
  if (http == kTooManyRequests || http >= 500) {
    return absl::UnavailableError(absl::StrCat(
        refusal, "; repeat the command later, which continues the run"));
  }
  if (http == kUnauthorized) {
    return absl::UnauthenticatedError(absl::StrCat(
        refusal,
        "; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
        "MLFLOW_TRACKING_TOKEN"));
  }
  if (http == kForbidden) {
    return absl::PermissionDeniedError(absl::StrCat(
        refusal,
        "; ask for the permission to write there, or name another experiment "
        "by --experiment"));
  }
  if (error.code == "RESOURCE_DOES_NOT_EXIST") {
    return absl::NotFoundError(absl::StrCat(
        refusal,
        "; it may have been deleted, then repeat the command for a new run"));
  }
  if (error.code == "RESOURCE_ALREADY_EXISTS") {
    return absl::AlreadyExistsError(
        absl::StrCat(refusal, "; name another experiment by --experiment"));
  }
  if (error.code == "INVALID_PARAMETER_VALUE" || error.code == "BAD_REQUEST") {
    return absl::InvalidArgumentError(absl::StrCat(
        refusal, "; correct what the message names, or update MLflow"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      refusal, "; the log of MLflow, or of a proxy before it, says more"));
}

}  // namespace

absl::StatusOr<nlohmann::json> ReadAnswer(const TrackingAnswer& answer) {
  const int http = answer.http_status;
  nlohmann::json body = nlohmann::json::parse(answer.body, nullptr, false);
  if (http == kHttpOk) {
    if (body.is_object()) return body;
    return NotATrackingServer(
        answer, absl::StrCat("its answer to ", answer.call, " is no JSON"));
  }
  if (http < 400) {
    return NotATrackingServer(
        answer,
        answer.location.empty()
            ? absl::StrCat("it answers ", answer.call, " with HTTP ", http)
            : absl::StrCat("it redirects to ", Shown(answer.location)));
  }
  const TrackingError error = ErrorIn(body);
  if ((http == kNoSuchPath || http == kNoSuchMethod) &&
      (error.code.empty() || error.code == "ENDPOINT_NOT_FOUND")) {
    return NotATrackingServer(
        answer,
        absl::StrCat("it does not know ", answer.call, " (HTTP ", http, ")"));
  }
  return StatusOf(answer, error);
}

}  // namespace gpupool::client
