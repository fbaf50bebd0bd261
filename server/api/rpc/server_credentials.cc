#include "server/api/rpc/server_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace gpupool::server {

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(
    const tls::TlsFiles& files, unsigned reload_seconds,
    const std::shared_ptr<MethodGuard>& guard) {
  if (!files.on()) {
    return guard == nullptr ? grpc::InsecureServerCredentials()
                            : GuardedPlainCredentials(guard);
  }
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca, reload_seconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  auto credentials = grpc::experimental::TlsServerCredentials(options);
  if (guard != nullptr) credentials->SetAuthMetadataProcessor(guard);
  return credentials;
}

}  // namespace gpupool::server
