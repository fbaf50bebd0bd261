#include "server/auth/secret.h"

#include <sys/random.h>

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/sha256.h"

namespace gpupool::server {
namespace {

constexpr size_t kRandomBytes = 32;
constexpr size_t kSecretChars = 43;  // of 32 bytes in base64url
constexpr absl::string_view kScheme = "bearer ";

}  // namespace

absl::StatusOr<std::string> NewSecret() {
  std::array<char, kRandomBytes> bytes = {};
  // Up to 256 bytes come whole or not at all.
  if (getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    return absl::UnavailableError(
        "the system has no random bytes yet; try again later");
  }
  return absl::StrCat(
      kSecretPrefix,
      absl::WebSafeBase64Escape(absl::string_view(bytes.data(), bytes.size())));
}

bool IsSecret(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kSecretPrefix)) return false;
  if (text.size() != kSecretChars) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' &&
        c != '_') {
      return false;
    }
  }
  return true;
}

std::string DigestOf(absl::string_view secret) {
  return engine::Sha256Hex({secret.data(), secret.size()});
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  // Volatile, so that the compiler cannot end the loop early.
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference |
        (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

absl::string_view SecretIn(absl::string_view authorization) {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return {};
  return absl::StripAsciiWhitespace(authorization.substr(kScheme.size()));
}

}  // namespace gpupool::server
