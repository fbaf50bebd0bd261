#include "client/channel_credentials.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tls/tls_files.h"

namespace gpupool::client {
namespace {

// Returns the same text as InvalidArgument: the call can never work with these
// files.
absl::Status Unusable(const absl::Status& status) {
  return absl::InvalidArgumentError(status.message());
}

absl::Status CheckWhole(const TlsOptions& options) {
  if (options.certificate.empty() != options.key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a client certificate and its key belong together; give ",
        options.key.empty() ? "--client-key or GPUPOOL_CLIENT_KEY"
                            : "--client-cert or GPUPOOL_CLIENT_CERT",
        " as well"));
  }
  if (options.ca.empty() && !options.certificate.empty()) {
    return absl::InvalidArgumentError(
        "a client certificate needs TLS; give the certificate of the server's "
        "authority with --ca or GPUPOOL_CA");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsOf(
    const TlsOptions& options) {
  const absl::Status whole = CheckWhole(options);
  if (!whole.ok()) return whole;
  if (options.ca.empty()) return grpc::InsecureChannelCredentials();
  const absl::Time now = absl::Now();
  auto authorities = tls::ReadAuthorities(options.ca, now);
  if (!authorities.ok()) return Unusable(authorities.status());
  grpc::SslCredentialsOptions credentials;
  credentials.pem_root_certs = *std::move(authorities);
  if (!options.certificate.empty()) {
    auto own = tls::ReadPair(options.certificate, options.key, now);
    if (!own.ok()) return Unusable(own.status());
    credentials.pem_cert_chain = std::move(own->certificate);
    credentials.pem_private_key = std::move(own->key);
  }
  return grpc::SslCredentials(credentials);
}

}  // namespace gpupool::client
