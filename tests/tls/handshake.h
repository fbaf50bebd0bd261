// TLS handshakes with a server on this machine, by OpenSSL alone.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tls/openssl_handles.h"

namespace gpupool::tls {

// Connects with no other version than `version`, verifies nothing, and calls
// `look` if the handshake succeeds.
inline void ShakeHands(int port, int version,
                       const std::function<void(SSL*)>& look) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
            0);
  {
    const std::unique_ptr<SSL_CTX, FreeWith<&SSL_CTX_free>> context(
        SSL_CTX_new(TLS_client_method()));
    // Otherwise this side refuses the old versions by itself.
    SSL_CTX_set_cipher_list(context.get(), "DEFAULT@SECLEVEL=0");
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
    const std::unique_ptr<SSL, FreeWith<&SSL_free>> connection(
        SSL_new(context.get()));
    constexpr unsigned char kProtocols[] = {2, 'h', '2'};
    SSL_set_alpn_protos(connection.get(), kProtocols, sizeof(kProtocols));
    SSL_set_fd(connection.get(), descriptor);
    if (SSL_connect(connection.get()) == 1) look(connection.get());
    TakeOpenSslError();
  }
  ::close(descriptor);
}

// Returns the version that was agreed on, such as "TLSv1.3", or "" when the
// handshake fails.
inline std::string AgreedVersion(int port, int version) {
  std::string agreed;
  ShakeHands(port, version,
             [&](SSL* connection) { agreed = SSL_get_version(connection); });
  return agreed;
}

// Returns the number of certificates that the server sends.
inline int CertificatesOf(int port) {
  int count = 0;
  ShakeHands(port, TLS1_3_VERSION, [&](SSL* connection) {
    count = sk_X509_num(SSL_get_peer_cert_chain(connection));
  });
  return count;
}

}  // namespace gpupool::tls
