#include "server/http/request_check.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

// Digits of a number in a header that is read.
constexpr size_t kMostDigits = 8;

// Returns "h" for "h:80", "::1" for "[::1]:80", and a bare address as it is.
absl::string_view WithoutPort(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    return host.substr(1, host.find(']') - 1);
  }
  const size_t colon = host.find(':');
  const bool bare_ip6 =
      colon != host.npos && host.find(':', colon + 1) != host.npos;
  return bare_ip6 ? host : host.substr(0, colon);
}

// Returns host and port of an origin such as "http://h:8000".
absl::string_view AuthorityOf(absl::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == origin.npos ? absl::string_view()
                               : origin.substr(scheme + 3);
}

// Returns the unit of a letter of grpc-timeout; zero if there is no such unit.
absl::Duration UnitOf(char letter) {
  switch (letter) {
    case 'H':
      return absl::Hours(1);
    case 'M':
      return absl::Minutes(1);
    case 'S':
      return absl::Seconds(1);
    case 'm':
      return absl::Milliseconds(1);
    case 'u':
      return absl::Microseconds(1);
    case 'n':
      return absl::Nanoseconds(1);
    default:
      return absl::ZeroDuration();
  }
}

// Returns `digits` times `unit`; zero unless that is a number of at most
// kMostDigits digits.
absl::Duration TimesUnit(absl::string_view digits, absl::Duration unit) {
  int64_t number = 0;
  if (digits.size() > kMostDigits ||
      !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &number)) {
    return absl::ZeroDuration();
  }
  return number * unit;
}

bool IsAddress(absl::string_view host) {
  const std::string name(WithoutPort(host));
  in6_addr bytes = {};  // large enough for both
  return inet_pton(AF_INET, name.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &bytes) == 1;
}

bool HasName(const std::vector<std::string>& names, absl::string_view name) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& known) {
    return absl::EqualsIgnoreCase(known, name);
  });
}

}  // namespace

bool IsJsonType(absl::string_view content_type) {
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(content_type.substr(
                                    0, content_type.find(';'))),
                                "application/json");
}

bool IsLoopback(absl::string_view host) {
  const std::string name(WithoutPort(host));
  in_addr ip4 = {};
  if (inet_pton(AF_INET, name.c_str(), &ip4) == 1) {
    return ntohl(ip4.s_addr) >> 24 == 127;
  }
  in6_addr ip6 = {};
  if (inet_pton(AF_INET6, name.c_str(), &ip6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&ip6);
  }
  return absl::EqualsIgnoreCase(name, "localhost");
}

absl::Status CheckOrigin(absl::string_view origin, absl::string_view host,
                         const TrustedHosts& trusted) {
  if (origin.empty()) return absl::OkStatus();
  if (host.empty() || !absl::EqualsIgnoreCase(AuthorityOf(origin), host)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the request comes from a page of ", origin, " and is for ", host,
        "; only pages of the server itself may call it"));
  }
  if (IsLoopback(host)) return absl::OkStatus();
  if (trusted.loopback_only) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the request comes from a page of ", origin,
        ", which is no name of this machine's loopback address, the only one "
        "that the server listens on; use localhost"));
  }
  if (IsAddress(host) || HasName(trusted.names, WithoutPort(host))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the request comes from a page of ", origin,
      ", which the server does not know as its name; use its IP address, or "
      "start it with --http-names ",
      WithoutPort(host)));
}

absl::StatusOr<absl::Duration> TimeLimitOf(absl::string_view grpc_timeout,
                                           absl::string_view timeout_ms,
                                           const TimeLimits& limits) {
  if (grpc_timeout.empty() && timeout_ms.empty()) return limits.otherwise;
  if (!grpc_timeout.empty() && !timeout_ms.empty()) {
    return absl::InvalidArgumentError(
        "the headers grpc-timeout and X-Timeout-Ms exclude each other; give "
        "one");
  }
  const absl::Duration timeout =
      timeout_ms.empty()
          ? TimesUnit(grpc_timeout.substr(0, grpc_timeout.size() - 1),
                      UnitOf(grpc_timeout.back()))
          : TimesUnit(timeout_ms, absl::Milliseconds(1));
  if (timeout > absl::ZeroDuration() && timeout <= limits.longest) {
    return timeout;
  }
  return absl::InvalidArgumentError(
      timeout_ms.empty()
          ? absl::StrCat("grpc-timeout is '", grpc_timeout,
                         "'; it takes at most ", kMostDigits,
                         " digits and one of H, M, S, m, u, n, as in 10S, "
                         "above 0 and up to ",
                         absl::ToInt64Minutes(limits.longest), "M")
          : absl::StrCat("X-Timeout-Ms is '", timeout_ms, "'; it takes 1 to ",
                         absl::ToInt64Milliseconds(limits.longest)));
}

absl::StatusOr<absl::Duration> TimeLimitOf(const HttpRequest& request,
                                           const TimeLimits& limits) {
  for (const char* name : {"grpc-timeout", "X-Timeout-Ms"}) {
    const size_t count = request.Count(name);
    if (count <= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the header ", name, " is there ", count, " times; give it once"));
  }
  return TimeLimitOf(request.Header("grpc-timeout"),
                     request.Header("X-Timeout-Ms"), limits);
}

}  // namespace gpupool::server
