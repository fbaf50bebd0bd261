// Certificates and private keys in PEM form, the text form of RFC 7468.
//
// Errors name the file that `name` says.
//
// Thread-safety: any thread; functions keep nothing.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tls/openssl_handles.h"

namespace gpupool::tls {

// Returns all certificates of the text, at least one. InvalidArgument for a
// text without any, and for a damaged one.
absl::StatusOr<std::vector<CertificateHandle>> ParseCertificates(
    absl::string_view pem, absl::string_view name);

// Returns the private key. InvalidArgument for a text without one, and for an
// encrypted key.
absl::StatusOr<KeyHandle> ParseKey(absl::string_view pem,
                                   absl::string_view name);

// Returns FailedPrecondition for a certificate that is expired or not yet valid
// at `now`.
absl::Status CheckValidity(const X509& certificate, absl::Time now,
                           absl::string_view name);

// Returns the end of the certificate's validity.
absl::Time ExpiryOf(const X509& certificate);

// Returns the end of the validity of the first certificate of a valid text.
absl::Time ExpiryOf(absl::string_view pem);

}  // namespace gpupool::tls
