// Files of TLS, and connections with them over real sockets.
#include "client/channel_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/client/testing/fake_server.h"
#include "tests/tls/test_authority.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tls::TestAuthority;
using tls::TlsFiles;

TlsOptions Trusting(const TestAuthority& authority, const TlsFiles& own = {}) {
  return {authority.ca(), own.certificate, own.key};
}

// Makes one call and returns how it ends.
absl::Status CallOnce(const std::string& address, const TlsOptions& tls) {
  auto client = Client::Create({.address = address,
                                .tls = tls,
                                .call_timeout = kPatience,
                                .retry_window = absl::ZeroDuration()});
  if (!client.ok()) return client.status();
  return (*client)->GetServerInfo({}).status();
}

absl::Status Made(const TlsOptions& tls) {
  return ChannelCredentialsOf(tls).status();
}

class TlsClientTest : public ::testing::Test {
 protected:
  // Returns the files of a server that wants certificates of clients.
  TlsFiles Strict() const {
    TlsFiles files = authority_.Server("127.0.0.1");
    files.client_ca = authority_.ca();
    return files;
  }

  const TestAuthority authority_;
  const TestAuthority stranger_;
};

TEST_F(TlsClientTest, CallsAServerOfItsAuthority) {
  FakeServer server(authority_.Server("127.0.0.1"));
  EXPECT_TRUE(CallOnce(server.address(), Trusting(authority_)).ok());
}

TEST_F(TlsClientTest, ShowsItsCertificate) {
  FakeServer server(Strict());
  const absl::Status status = CallOnce(
      server.address(), Trusting(authority_, authority_.Client("mia")));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TlsClientTest, SaysThatAServerMayWantTls) {
  FakeServer server(authority_.Server("127.0.0.1"));
  const absl::Status status = CallOnce(server.address(), {});
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("cannot reach a server at " + server.address()),
                    HasSubstr("with --ca or GPUPOOL_CA")));
}

TEST_F(TlsClientTest, SaysThatAServerSpeaksNoTls) {
  FakeServer server;
  const absl::Status status = CallOnce(server.address(), Trusting(authority_));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("it speaks no TLS; leave out --ca"));
}

TEST_F(TlsClientTest, SaysThatItsAuthorityDidNotSignTheServer) {
  FakeServer server(authority_.Server("127.0.0.1"));
  const absl::Status status = CallOnce(server.address(), Trusting(stranger_));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(),
              HasSubstr("signed by no authority in " + stranger_.ca()));
}

TEST_F(TlsClientTest, SaysThatTheCertificateIsForAnotherHost) {
  FakeServer server(authority_.Server("elsewhere"));
  const absl::Status status = CallOnce(server.address(), Trusting(authority_));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("is not for this host"));
}

TEST_F(TlsClientTest, SaysThatAServerMayWantACertificate) {
  FakeServer server(Strict());
  EXPECT_THAT(CallOnce(server.address(), Trusting(authority_)).message(),
              HasSubstr("give one with --client-cert and --client-key"));
  const TlsFiles own = stranger_.Client("mia");
  EXPECT_THAT(CallOnce(server.address(), Trusting(authority_, own)).message(),
              HasSubstr("the authority that signed " + own.certificate));
}

TEST_F(TlsClientTest, ArePlainWithoutAnAuthority) {
  EXPECT_TRUE(Made({}).ok());
  FakeServer server;
  EXPECT_TRUE(CallOnce(server.address(), {}).ok());
}

TEST_F(TlsClientTest, SaysWhichOptionIsMissing) {
  const TlsFiles own = authority_.Client("mia");
  absl::Status status = Made({authority_.ca(), own.certificate, ""});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("give --client-key or"));
  status = Made({authority_.ca(), "", own.key});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("give --client-cert or"));
  status = Made({"", own.certificate, own.key});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("with --ca or GPUPOOL_CA"));
}

TEST_F(TlsClientTest, NamesAFileThatCannotBeUsed) {
  absl::Status status = Made({.ca = "/nowhere/ca.pem"});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("cannot read /nowhere/ca.pem"));
  const TlsFiles old = authority_.Client("old", tls::Past());
  status = Made(Trusting(authority_, old));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(old.certificate), HasSubstr("expired")));
  const TlsFiles own = authority_.Client("mia");
  ASSERT_EQ(::chmod(own.key.c_str(), 0644), 0);
  EXPECT_THAT(Made(Trusting(authority_, own)).message(),
              HasSubstr("chmod 600 " + own.key));
}

TEST(DefaultTlsTest, ComesFromTheEnvironment) {
  EXPECT_EQ(DefaultTls().ca, "");
  setenv("GPUPOOL_CA", "ca.pem", 1);
  setenv("GPUPOOL_CLIENT_CERT", "mia.pem", 1);
  setenv("GPUPOOL_CLIENT_KEY", "mia.key", 1);
  const TlsOptions tls = DefaultTls();
  EXPECT_EQ(tls.ca, "ca.pem");
  EXPECT_EQ(tls.certificate, "mia.pem");
  EXPECT_EQ(tls.key, "mia.key");
  for (const char* name :
       {"GPUPOOL_CA", "GPUPOOL_CLIENT_CERT", "GPUPOOL_CLIENT_KEY"}) {
    unsetenv(name);
  }
}

}  // namespace
}  // namespace gpupool::client
