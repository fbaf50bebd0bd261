// The HTTP port with TLS, over real sockets.
#include "server/http/served_certificate.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <string>
#include <thread>
#include <vector>

#include "server/http/http_server.h"
#include "tests/server/http/port/raw_client.h"
#include "tests/tls/handshake.h"
#include "tests/tls/test_authority.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using tls::TestAuthority;
using tls::TextOfFile;
using tls::TlsFiles;

class ServedCertificateTest : public ::testing::Test {
 protected:
  void Serve(const TlsFiles& files, size_t handshakes = 256) {
    // The page itself needs no call.
    auto http = HttpServer::Start(
        {.tls = files, .handshakes = handshakes},
        grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()));
    ASSERT_TRUE(http.ok()) << http.status();
    http_ = *std::move(http);
  }

  // Returns whether a client that trusts the authority, and shows `own` if it
  // is given, gets the page.
  bool Gets(const TestAuthority& authority, const TlsFiles& own = {}) {
    httplib::SSLClient client("127.0.0.1", http_->port(), own.certificate,
                              own.key);
    client.set_ca_cert_path(authority.ca());
    client.enable_server_certificate_verification(true);
    client.set_read_timeout(absl::ToInt64Seconds(kPatience));
    const auto result = client.Get("/");
    return result && result->status == 200;
  }

  const TestAuthority authority_;
  const TestAuthority stranger_;
  std::unique_ptr<HttpServer> http_;
};

TEST_F(ServedCertificateTest, ServesClientsThatTrustTheAuthority) {
  Serve(authority_.Server("127.0.0.1"));
  EXPECT_TRUE(Gets(authority_));
  EXPECT_FALSE(Gets(stranger_));
  EXPECT_FALSE(httplib::Client("127.0.0.1", http_->port()).Get("/"))
      << "a plain connection";
}

TEST_F(ServedCertificateTest, HandshakesBeyondTheMostWaitForTheirTurn) {
  Serve(authority_.Server("127.0.0.1"), /*handshakes=*/1);
  RawClient silent(http_->port());
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] { EXPECT_TRUE(Gets(authority_)); });
  }
  silent.Close();
  for (std::thread& client : clients) client.join();
}

TEST_F(ServedCertificateTest, SendsTheCertificatesOfIntermediateAuthorities) {
  const TlsFiles files = authority_.Server("127.0.0.1");
  tls::WritePrivateFile(files.certificate, TextOfFile(files.certificate) +
                                               stranger_.own().certificate);
  Serve(files);
  EXPECT_TRUE(Gets(authority_));
  EXPECT_EQ(tls::CertificatesOf(http_->port()), 2);
}

TEST_F(ServedCertificateTest, TakesNothingOlderThanTls12) {
  Serve(authority_.Server("127.0.0.1"));
  EXPECT_EQ(tls::AgreedVersion(http_->port(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(tls::AgreedVersion(http_->port(), TLS1_2_VERSION), "TLSv1.2");
  EXPECT_EQ(tls::AgreedVersion(http_->port(), TLS1_1_VERSION), "");
}

TEST_F(ServedCertificateTest, ClientsNeedACertificateWhereThereAreAuthorities) {
  TlsFiles files = authority_.Server("127.0.0.1");
  files.client_ca = authority_.ca();
  Serve(files);
  EXPECT_TRUE(Gets(authority_, authority_.Client("mia")));
  EXPECT_FALSE(Gets(authority_));
  EXPECT_FALSE(Gets(authority_, stranger_.Client("mia")));
  EXPECT_FALSE(Gets(authority_, authority_.Client("old", tls::Past())));
  EXPECT_FALSE(Gets(authority_, authority_.Server("mia")))
      << "a certificate of a server is none of a client";
}

TEST_F(ServedCertificateTest, NewFilesServeTheNextConnection) {
  TlsFiles files = authority_.Server("127.0.0.1");
  files.client_ca = authority_.folder() / "clients.pem";
  tls::WritePrivateFile(files.client_ca, authority_.own().certificate);
  Serve(files);
  ASSERT_TRUE(Gets(authority_, authority_.Client("mia")));
  const TlsFiles fresh = stranger_.Server("127.0.0.1");
  tls::WritePrivateFile(files.key, TextOfFile(fresh.key));
  tls::WritePrivateFile(files.certificate, TextOfFile(fresh.certificate));
  tls::WritePrivateFile(files.client_ca, stranger_.own().certificate);
  EXPECT_TRUE(Gets(stranger_, stranger_.Client("mia")));
  EXPECT_FALSE(Gets(stranger_, authority_.Client("mia")));
}

TEST_F(ServedCertificateTest, AChangeForTheWorseChangesNothing) {
  const TlsFiles files = authority_.Server("127.0.0.1");
  const std::string key = TextOfFile(files.key);
  Serve(files);
  tls::WritePrivateFile(files.key, stranger_.own().key);
  EXPECT_TRUE(Gets(authority_));
  std::filesystem::remove(files.certificate);
  EXPECT_TRUE(Gets(authority_));
  const TlsFiles fresh = stranger_.Server("127.0.0.1");
  tls::WritePrivateFile(files.key, TextOfFile(fresh.key));
  tls::WritePrivateFile(files.certificate, TextOfFile(fresh.certificate));
  EXPECT_TRUE(Gets(stranger_));
}

TEST_F(ServedCertificateTest, AConnectionCarriesManyRequests) {
  Serve(authority_.Server("127.0.0.1"));
  httplib::SSLClient client("127.0.0.1", http_->port());
  client.set_ca_cert_path(authority_.ca());
  client.enable_server_certificate_verification(true);
  client.set_keep_alive(true);
  const std::string body(100'000, 'x');
  for (int i = 0; i < 3; ++i) {
    const auto page = client.Get("/");
    ASSERT_TRUE(page) << httplib::to_string(page.error());
    EXPECT_EQ(page->status, 200);
    const auto posted = client.Post("/nothing", body, "text/plain");
    ASSERT_TRUE(posted) << httplib::to_string(posted.error());
    EXPECT_EQ(posted->status, 404);
  }
}

TEST_F(ServedCertificateTest, AClientThatStillSendsSeesTheAnswer) {
  Serve(authority_.Server("127.0.0.1"));
  httplib::SSLClient client("127.0.0.1", http_->port());
  client.set_ca_cert_path(authority_.ca());
  const auto posted =
      client.Post("/nothing", std::string(8 << 20, 'x'), "text/plain");
  ASSERT_TRUE(posted) << httplib::to_string(posted.error());
  EXPECT_EQ(posted->status, 413);
}

TEST_F(ServedCertificateTest, ClientsThatShakeNoHandsDelayNobody) {
  Serve(authority_.Server("127.0.0.1"));
  std::vector<RawClient> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(http_->port());
    if (i % 2 == 0) silent.back().Send("GET / HTTP/1.1\r\n");  // no TLS
  }
  EXPECT_TRUE(Gets(authority_));
}

TEST_F(ServedCertificateTest, WrongFilesAreRefusedAtTheStart) {
  const auto http = HttpServer::Start(
      {.tls = {"/nowhere/a.pem", "/nowhere/a.key", ""}}, nullptr);
  EXPECT_TRUE(absl::IsNotFound(http.status())) << http.status();
  const TlsFiles one = authority_.Server("one");
  const TlsFiles two = authority_.Server("two");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ServedCertificate::Load({one.certificate, two.key, ""}).status()));
}

}  // namespace
}  // namespace gpupool::server
