// Secrets of tokens: "gpk_" and 32 random bytes in base64url, without padding.
// Only the SHA-256 of a secret is kept. Nothing slower is needed, because
// nobody can guess 256 random bits.
//
// Pure functions, but for NewSecret.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

inline constexpr absl::string_view kSecretPrefix = "gpk_";

// Returns a new secret. Unavailable when the system has no random bytes.
absl::StatusOr<std::string> NewSecret();

// Returns whether the text has the form of a secret.
bool IsSecret(absl::string_view text);

// Returns the digest under which a secret is kept, in 64 hex digits.
std::string DigestOf(absl::string_view secret);

// Returns whether the texts are equal. The time that it takes depends on their
// lengths alone.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

// Returns the secret in the value of an `authorization` header, "Bearer
// SECRET"; the case of the first word does not count (RFC 6750, RFC 9110).
// Empty if the value has another form.
absl::string_view SecretIn(absl::string_view authorization);

}  // namespace gpupool::server
