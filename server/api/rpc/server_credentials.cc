#include "server/api/rpc/server_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace gpupool::server {

CredentialsFor ServerCredentialsOf(const tls::TlsFiles& files,
                                   unsigned reload_seconds) {
  if (!files.on()) {
    return [](const std::shared_ptr<MethodGuard>& guard) {
      return guard == nullptr ? grpc::InsecureServerCredentials()
                              : GuardedPlainCredentials(guard);
    };
  }
  auto provider =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca, reload_seconds);
  return [provider, certificates = !files.client_ca.empty()](
             const std::shared_ptr<MethodGuard>& guard) {
    // Made anew for each, since the credentials take what is in it.
    grpc::experimental::TlsServerCredentialsOptions options(provider);
    options.watch_identity_key_cert_pairs();
    if (certificates) {
      options.watch_root_certs();
      options.set_cert_request_type(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    }
    auto credentials = grpc::experimental::TlsServerCredentials(options);
    if (guard != nullptr) credentials->SetAuthMetadataProcessor(guard);
    return credentials;
  };
}

}  // namespace gpupool::server
