#include "client/cli/mlflow/tracking_url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/text/quote.h"

namespace gpupool::client {
namespace {

constexpr char kExample[] = "http://localhost:5000";

absl::Status BadUrl(absl::string_view text, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("the URL of MLflow, ", Quoted(text), ", ", reason));
}

// Takes the scheme and "://" from the front of `rest`.
absl::Status TakeScheme(absl::string_view text, absl::string_view& rest,
                        TrackingUrl& url) {
  const size_t end = text.find("://");
  const size_t colon = text.find(':');
  if (end == absl::string_view::npos && !absl::EndsWith(text, ":") &&
      !absl::StrContains(text, ":/") &&
      (colon == absl::string_view::npos || colon + 1 == text.size() ||
       absl::ascii_isdigit(static_cast<unsigned char>(text[colon + 1])))) {
    return BadUrl(text, absl::StrCat("has no scheme; write http:// or "
                                     "https:// before it, as in ",
                                     kExample));
  }
  const absl::string_view given =
      text.substr(0, end == absl::string_view::npos ? colon : end);
  const std::string scheme = absl::AsciiStrToLower(given);
  if (end == absl::string_view::npos ||
      (scheme != "http" && scheme != "https")) {
    return BadUrl(
        text, absl::StrCat("has the scheme ", Quoted(given),
                           ", but runs are sent over http or https; start a "
                           "tracking server with `mlflow server` and name it, "
                           "as in ",
                           kExample));
  }
  url.tls = scheme == "https";
  rest = text.substr(end + 3);
  return absl::OkStatus();
}

// Takes host and port from `authority`.
absl::Status TakeHost(absl::string_view text, absl::string_view authority,
                      TrackingUrl& url) {
  url.authority = std::string(authority);
  url.port = url.tls ? 443 : 80;
  const bool bracketed = absl::StartsWith(authority, "[");
  const size_t host_end = authority.find(bracketed ? ']' : ':');
  const absl::string_view host = authority.substr(0, host_end);
  absl::string_view after = host_end == absl::string_view::npos
                                ? absl::string_view()
                                : authority.substr(host_end);
  if (bracketed && (after.empty() || !absl::ConsumePrefix(&after, "]"))) {
    return BadUrl(text, "has no ] after its address");
  }
  url.host = std::string(bracketed ? host.substr(1) : host);
  if (url.host.empty()) {
    return BadUrl(text,
                  absl::StrCat("names no host; an example is ", kExample));
  }
  if (after.empty()) return absl::OkStatus();
  uint32_t port = 0;
  if (!absl::ConsumePrefix(&after, ":") || !absl::SimpleAtoi(after, &port) ||
      port == 0 || port > 65535) {
    return BadUrl(text, "has a port that is no number from 1 to 65535");
  }
  url.port = static_cast<uint16_t>(port);
  return absl::OkStatus();
}

}  // namespace

std::string TrackingUrl::Text() const {
  return absl::StrCat(tls ? "https://" : "http://", authority, prefix);
}

absl::StatusOr<TrackingUrl> ParseTrackingUrl(absl::string_view text) {
  if (absl::StrContains(text, "@")) {
    // The text may have a password, so it is not printed.
    return absl::InvalidArgumentError(
        "the URL of MLflow has a user name; leave it out and set "
        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (in a path, "
        "write @ as %40)");
  }
  const auto is_odd = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte >= 0x7F || c == '\\' || c == '"';
  };
  if (std::any_of(text.begin(), text.end(), is_odd)) {
    return BadUrl(text,
                  "has a space or another character that does not belong into "
                  "a URL; write such characters of a path as %XX");
  }
  TrackingUrl url;
  absl::string_view rest;
  absl::Status status = TakeScheme(text, rest, url);
  if (!status.ok()) return status;
  if (rest.find_first_of("?#") != absl::string_view::npos) {
    return BadUrl(text,
                  "has a query or a fragment; leave out what begins with ? or "
                  "#");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  const absl::string_view authority = rest.substr(0, slash);
  status = TakeHost(text, authority, url);
  if (!status.ok()) return status;
  absl::string_view prefix = rest.substr(slash);
  while (absl::ConsumeSuffix(&prefix, "/")) {
  }
  url.prefix = std::string(prefix);
  return url;
}

std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-_.~", {&c, 1})) {
      encoded += c;
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", byte);
    }
  }
  return encoded;
}

}  // namespace gpupool::client
