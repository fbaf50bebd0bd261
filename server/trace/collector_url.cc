#include "server/trace/collector_url.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

// The port of OTLP over HTTP.
constexpr uint16_t kDefaultPort = 4318;
constexpr absl::string_view kTracesPath = "/v1/traces";

absl::Status Malformed(absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("must be the URL of a collector, as in "
                   "http://localhost:4318, but ",
                   reason));
}

// Reads "HOST[:PORT]" or "[ADDRESS][:PORT]".
absl::Status ReadAuthority(absl::string_view text, CollectorUrl* url) {
  const bool bracketed = absl::StartsWith(text, "[");
  const size_t end = std::min(text.find(bracketed ? ']' : ':'), text.size());
  absl::string_view rest = text.substr(end);
  if (bracketed && !absl::ConsumePrefix(&rest, "]")) {
    return Malformed("its address has no closing ]");
  }
  url->host = std::string(text.substr(0, end).substr(bracketed ? 1 : 0));
  if (url->host.empty()) return Malformed("it names no host");
  url->port = kDefaultPort;
  url->authority = std::string(text);
  if (rest.empty()) {
    absl::StrAppend(&url->authority, ":", kDefaultPort);
    return absl::OkStatus();
  }
  uint32_t port = 0;
  if (!absl::ConsumePrefix(&rest, ":") || !absl::SimpleAtoi(rest, &port) ||
      port == 0 || port > UINT16_MAX) {
    return Malformed("its port is no number from 1 to 65535");
  }
  url->port = static_cast<uint16_t>(port);
  return absl::OkStatus();
}

}  // namespace

std::string CollectorUrl::Text() const {
  return absl::StrCat(tls ? "https://" : "http://", authority, path);
}

absl::StatusOr<CollectorUrl> ParseCollectorUrl(absl::string_view text) {
  const bool printable = std::all_of(
      text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!printable) {
    return Malformed("it has a space or a character that is not ASCII");
  }
  if (absl::StrContains(text, "@")) return Malformed("it has a user name");
  CollectorUrl url;
  url.tls = absl::ConsumePrefix(&text, "https://");
  if (!url.tls && !absl::ConsumePrefix(&text, "http://")) {
    return Malformed("it does not begin with http:// or https://");
  }
  if (text.find_first_of("?#") != absl::string_view::npos) {
    return Malformed("it has a query or a fragment");
  }
  const size_t slash = std::min(text.find('/'), text.size());
  RETURN_IF_ERROR(ReadAuthority(text.substr(0, slash), &url));
  absl::string_view path = text.substr(slash);
  while (absl::ConsumeSuffix(&path, "/")) {
  }
  url.path = std::string(path);
  if (!absl::EndsWith(path, kTracesPath)) {
    absl::StrAppend(&url.path, kTracesPath);
  }
  return url;
}

}  // namespace gpupool::server
