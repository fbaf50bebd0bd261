#include "client/connection_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

const TlsOptions kPlain;
const TlsOptions kTls = {.ca = "ca.pem"};
const TlsOptions kBoth = {"ca.pem", "mia.pem", "mia.key"};
constexpr char kClosed[] =
    "failed to connect to all addresses; last error: UNAVAILABLE: "
    "ipv4:127.0.0.1:9: Socket closed";

TEST(ConnectionFailureTest, NamesTheLastReasonAndHowToStartAServer) {
  const std::string text = ConnectionFailure(
      kPlain,
      "failed to connect to all addresses; last error: UNKNOWN: "
      "ipv4:127.0.0.1:9: Failed to connect to remote host: Connection refused");
  EXPECT_THAT(text, HasSubstr("Connection refused; start one with `gpupoold`"));
  EXPECT_THAT(ConnectionFailure(kPlain, ""),
              HasSubstr("the connection was lost; start one"));
}

TEST(ConnectionFailureTest, ASocketOfSomebodyElseIsNotForUs) {
  EXPECT_THAT(
      ConnectionFailure(kPlain,
                        "failed to connect to all addresses; last error: "
                        "UNKNOWN: unix:/run/x: Permission denied"),
      HasSubstr("only the server's user and root may use this socket"));
}

TEST(ConnectionFailureTest, AServerThatEndsConnectionsWantsWhatIsMissing) {
  EXPECT_THAT(ConnectionFailure(kPlain, kClosed),
              HasSubstr("if it wants TLS, give the certificate of its "
                        "authority with --ca or GPUPOOL_CA"));
  EXPECT_THAT(ConnectionFailure(kTls, kClosed),
              HasSubstr("if it wants certificates of clients, give one with "
                        "--client-cert and --client-key"));
  EXPECT_THAT(ConnectionFailure(kBoth, kClosed),
              HasSubstr("does not know the authority that signed mia.pem"));
}

TEST(ConnectionFailureTest, AConnectionThatWasReadyIsOnlyLost) {
  EXPECT_THAT(ConnectionFailure(kPlain, "Socket closed"),
              HasSubstr("Socket closed; start one"));
}

TEST(ConnectionFailureTest, KnowsTheReasonsOfTls) {
  const std::string begin =
      "failed to connect to all addresses; last error: UNKNOWN: "
      "ipv4:127.0.0.1:9: ";
  const std::string handshake =
      begin +
      "Ssl handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL "
      "routines::";
  EXPECT_THAT(ConnectionFailure(kTls, handshake + "wrong version number"),
              HasSubstr("it speaks no TLS; leave out --ca"));
  EXPECT_THAT(ConnectionFailure(kTls, handshake + "certificate verify failed"),
              HasSubstr("signed by no authority in ca.pem"));
  EXPECT_THAT(
      ConnectionFailure(kTls, begin + "Peer name h is not in peer certificate"),
      HasSubstr("its certificate is not for this host"));
  EXPECT_THAT(ConnectionFailure(kTls, handshake + "no shared cipher"),
              HasSubstr("no shared cipher; start one"));
}

}  // namespace
}  // namespace gpupool::client
