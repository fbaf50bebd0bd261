#include "client/cli/mlflow/tracking_credentials.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

constexpr char kUserVariable[] = "MLFLOW_TRACKING_USERNAME";
constexpr char kPasswordVariable[] = "MLFLOW_TRACKING_PASSWORD";
constexpr char kTokenVariable[] = "MLFLOW_TRACKING_TOKEN";
constexpr char kCertificateVariable[] = "MLFLOW_TRACKING_SERVER_CERT_PATH";
constexpr char kInsecureVariable[] = "MLFLOW_TRACKING_INSECURE_TLS";

// Returns "" for a variable that is not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsTrue(const std::string& value) {
  return absl::EqualsIgnoreCase(value, "true") || value == "1";
}

}  // namespace

absl::StatusOr<TrackingCredentials> TrackingCredentials::FromEnvironment() {
  TrackingCredentials credentials;
  const std::string user = Variable(kUserVariable);
  const std::string password = Variable(kPasswordVariable);
  const std::string token = Variable(kTokenVariable);
  if (!user.empty() && !password.empty()) {
    credentials.authorization = absl::StrCat(
        "Basic ", absl::Base64Escape(absl::StrCat(user, ":", password)));
  } else if (!token.empty()) {
    const auto fits = [](char c) {
      return absl::ascii_isgraph(static_cast<unsigned char>(c));
    };
    if (!std::all_of(token.begin(), token.end(), fits)) {
      return absl::InvalidArgumentError(absl::StrCat(
          kTokenVariable,
          " has a space, a line end or another character that a header cannot "
          "have; set it to the token alone"));
    }
    credentials.authorization = absl::StrCat("Bearer ", token);
  }
  credentials.ca_file = Variable(kCertificateVariable);
  credentials.verify_server = !IsTrue(Variable(kInsecureVariable));
  if (!credentials.verify_server && !credentials.ca_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCertificateVariable, " and ", kInsecureVariable,
                     " contradict each other; unset one of them"));
  }
  return credentials;
}

}  // namespace gpupool::client
