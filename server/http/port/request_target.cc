#include "server/http/port/request_target.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/base/utf8.h"

namespace gpupool::server {
namespace {

int HexDigit(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  const char lower = absl::ascii_tolower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string Decoded(absl::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
        HexDigit(text[i + 2]) >= 0) {
      decoded.push_back(static_cast<char>(HexDigit(text[i + 1]) * 16 +
                                          HexDigit(text[i + 2])));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// Takes scheme and host, if they are there, from the front of the target.
// Returns the host.
absl::string_view TakeHost(absl::string_view* target) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(*target, scheme)) continue;
    target->remove_prefix(scheme.size());
    const absl::string_view host =
        target->substr(0, target->find_first_of("/?"));
    target->remove_prefix(host.size());
    return host;
  }
  return {};
}

}  // namespace

absl::StatusOr<RequestTarget> ReadTarget(absl::string_view target) {
  RequestTarget parts;
  parts.host = std::string(TakeHost(&target));
  const size_t mark = target.find('?');
  const absl::string_view path = target.substr(0, mark);
  parts.path = Decoded(path);
  if (std::count(parts.path.begin(), parts.path.end(), '/') !=
      std::count(path.begin(), path.end(), '/')) {
    return absl::InvalidArgumentError(
        "the path has a slash as %2F; no name has a slash");
  }
  if (mark != target.npos) parts.query = std::string(target.substr(mark + 1));
  if (parts.path.empty()) parts.path = "/";
  if (engine::IsUtf8(parts.path)) return parts;
  return absl::InvalidArgumentError(
      "the path is not UTF-8; names have only characters of UTF-8");
}

}  // namespace gpupool::server
