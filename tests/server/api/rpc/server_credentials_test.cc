#include "server/api/rpc/server_credentials.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "tests/tls/handshake.h"
#include "tests/tls/test_authority.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using tls::TestAuthority;
using tls::TextOfFile;
using tls::TlsFiles;

// A server without any rpc.
class SecureServer {
 public:
  explicit SecureServer(const TlsFiles& files) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0",
                             ServerCredentialsOf(files, 1)(nullptr), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~SecureServer() { server_->Shutdown(); }

  int port() const { return port_; }

  // Returns whether a connection with these credentials comes about.
  bool Takes(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port_), credentials, arguments);
    const auto end = absl::ToChronoTime(absl::Now() + kPatience);
    grpc_connectivity_state state = channel->GetState(true);
    while (state != GRPC_CHANNEL_READY &&
           state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
      EXPECT_TRUE(channel->WaitForStateChange(state, end));
      state = channel->GetState(true);
    }
    return state == GRPC_CHANNEL_READY;
  }

 private:
  v1::JobService::Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Returns the credentials of a client without a certificate, or with this one.
std::shared_ptr<grpc::ChannelCredentials> Trusting(
    const TestAuthority& authority, const TlsFiles& own = {}) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority.own().certificate;
  if (own.on()) {
    options.pem_cert_chain = TextOfFile(own.certificate);
    options.pem_private_key = TextOfFile(own.key);
  }
  return grpc::SslCredentials(options);
}

TEST(ServerCredentialsTest, ArePlainWithoutACertificate) {
  SecureServer server({});
  EXPECT_TRUE(server.Takes(grpc::InsecureChannelCredentials()));
}

TEST(ServerCredentialsTest, TakeClientsThatTrustTheAuthority) {
  const TestAuthority authority;
  const TestAuthority stranger;
  SecureServer server(authority.Server("127.0.0.1"));
  EXPECT_TRUE(server.Takes(Trusting(authority)));
  EXPECT_FALSE(server.Takes(Trusting(stranger)));
  EXPECT_FALSE(server.Takes(grpc::InsecureChannelCredentials()));
}

TEST(ServerCredentialsTest, AClientNoticesAnotherHost) {
  const TestAuthority authority;
  SecureServer server(authority.Server("elsewhere"));
  EXPECT_FALSE(server.Takes(Trusting(authority)));
}

TEST(ServerCredentialsTest, TakeNothingOlderThanTls12) {
  const TestAuthority authority;
  SecureServer server(authority.Server("127.0.0.1"));
  EXPECT_EQ(tls::AgreedVersion(server.port(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(tls::AgreedVersion(server.port(), TLS1_2_VERSION), "TLSv1.2");
  EXPECT_EQ(tls::AgreedVersion(server.port(), TLS1_1_VERSION), "");
  EXPECT_EQ(tls::AgreedVersion(server.port(), TLS1_VERSION), "");
}

TEST(ServerCredentialsTest, ClientsNeedACertificateWhereThereAreAuthorities) {
  const TestAuthority authority;
  const TestAuthority stranger;
  TlsFiles files = authority.Server("127.0.0.1");
  files.client_ca = authority.ca();
  SecureServer server(files);
  EXPECT_TRUE(server.Takes(Trusting(authority, authority.Client("mia"))));
  EXPECT_FALSE(server.Takes(Trusting(authority)));
  EXPECT_FALSE(server.Takes(Trusting(authority, stranger.Client("mia"))));
  EXPECT_FALSE(
      server.Takes(Trusting(authority, authority.Client("old", tls::Past()))));
  EXPECT_FALSE(server.Takes(Trusting(authority, authority.Server("mia"))))
      << "a certificate of a server is none of a client";
}

TEST(ServerCredentialsTest, NewFilesServeNewConnections) {
  const TestAuthority authority;
  const TestAuthority next;
  const TlsFiles files = authority.Server("127.0.0.1");
  SecureServer server(files);
  ASSERT_TRUE(server.Takes(Trusting(authority)));
  const TlsFiles fresh = next.Server("127.0.0.1");
  tls::WritePrivateFile(files.key, TextOfFile(fresh.key));
  tls::WritePrivateFile(files.certificate, TextOfFile(fresh.certificate));
  EXPECT_TRUE(WaitUntil([&] { return server.Takes(Trusting(next)); }));
  EXPECT_FALSE(server.Takes(Trusting(authority)));
}

TEST(ServerCredentialsTest, AKeyThatDoesNotFitIsMendedByOneThatDoes) {
  const TestAuthority authority;
  const TlsFiles files = authority.Server("127.0.0.1");
  const std::string key = TextOfFile(files.key);
  SecureServer server(files);
  tls::WritePrivateFile(files.key, TextOfFile(authority.Server("other").key));
  EXPECT_TRUE(WaitUntil([&] { return !server.Takes(Trusting(authority)); }));
  tls::WritePrivateFile(files.key, key);
  EXPECT_TRUE(WaitUntil([&] { return server.Takes(Trusting(authority)); }));
}

TEST(ServerCredentialsTest, NewAuthoritiesOfClientsCountForNewConnections) {
  const TestAuthority authority;
  const TestAuthority next;
  TlsFiles files = authority.Server("127.0.0.1");
  files.client_ca = authority.folder() / "clients.pem";
  tls::WritePrivateFile(files.client_ca, authority.own().certificate);
  SecureServer server(files);
  const auto mia = Trusting(authority, next.Client("mia"));
  ASSERT_FALSE(server.Takes(mia));
  tls::WritePrivateFile(files.client_ca, next.own().certificate);
  EXPECT_TRUE(WaitUntil([&] { return server.Takes(mia); }));
  EXPECT_FALSE(server.Takes(Trusting(authority, authority.Client("eve"))));
}

}  // namespace
}  // namespace gpupool::server
