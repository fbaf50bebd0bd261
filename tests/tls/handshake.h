// One TLS handshake with a server on this machine, by OpenSSL alone.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tls/openssl_handles.h"

namespace gpupool::tls {

// Returns the version that was agreed on, such as "TLSv1.3", or "" when the
// handshake fails. Offers no other version than `version`; verifies nothing.
inline std::string AgreedVersion(int port, int version) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
            0);
  std::string agreed;
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
    if (SSL_connect(connection.get()) == 1) {
      agreed = SSL_get_version(connection.get());
    }
    TakeOpenSslError();
  }
  ::close(descriptor);
  return agreed;
}

}  // namespace gpupool::tls
