#include "server/api/rpc/grpc_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/audit_check.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "server/api/rpc/call_auditor.h"
#include "server/auth/access_gate.h"
#include "server/auth/secret.h"
#include "tests/server/auth/connect_as.h"
#include "tests/server/store/temp_dir.h"
#include "tests/tls/test_authority.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Stub = std::unique_ptr<v1::JobService::Stub>;

// A server whose methods are all unimplemented, so that a call that is admitted
// ends with UNIMPLEMENTED.
class ServerAtPort {
 public:
  explicit ServerAtPort(FreeCallers free, const std::string& address,
                        const tls::TlsFiles& files = {},
                        bool asks_users = false)
      : gate_(free, absl::Now) {
    if (asks_users) gate_.AskUsers();
    gate_.KeepRecords(*audit::AuditLog::Open(
        {.files = {.folder = folder_ / "audit"}, .now = absl::Now}));
    auto port = GrpcPort::Listen(address, 0);
    EXPECT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
    grpc::ServerBuilder builder;
    port_->AddTo(&builder, ServerCredentialsOf(files, 5), &gate_);
    builder.RegisterService(&service_);
    builder.experimental().SetInterceptorCreators(CallAuditors(&gate_));
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    port_->Start();
  }
  ~ServerAtPort() {
    port_->Stop();
    server_->Shutdown();
  }
  ServerAtPort(const ServerAtPort&) = delete;
  ServerAtPort& operator=(const ServerAtPort&) = delete;

  int port() const { return port_->port(); }
  AccessGate& gate() { return gate_; }

  Stub StubTo(const std::string& address,
              const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                  grpc::InsecureChannelCredentials()) const {
    return v1::JobService::NewStub(
        grpc::CreateChannel(absl::StrCat(address, ":", port()), credentials));
  }

  // Returns a stub whose connection is another user's.
  Stub StubOf(uid_t uid) const {
    const int connection = ConnectAs(uid, "127.0.0.1", port());
    EXPECT_GE(connection, 0);
    fcntl(connection, F_SETFL, O_NONBLOCK);
    return v1::JobService::NewStub(
        grpc::CreateInsecureChannelFromFd("stranger", connection));
  }

  // Returns the newest record of the audit log.
  std::string LastRecord() {
    EXPECT_TRUE(gate_.log()->Flush().ok());
    return audit::LastLines(folder_ / "audit", 1)->front();
  }

 private:
  const TempDir folder_;
  AccessGate gate_;
  v1::JobService::Service service_;
  std::unique_ptr<GrpcPort> port_;
  std::unique_ptr<grpc::Server> server_;
};

grpc::Status Cancel(const Stub& stub, const std::string& header = "") {
  grpc::ClientContext context;
  if (!header.empty()) context.AddMetadata("authorization", header);
  v1::Job job;
  return stub->CancelJob(&context, {}, &job);
}

TEST(GrpcPortTest, TheServersUserNeedsNoToken) {
  for (const char* listen : {"127.0.0.1", "0.0.0.0"}) {
    ServerAtPort server(FreeCallers::kOwnUsers, listen);
    const Stub stub = server.StubTo("127.0.0.1");
    for (int i = 0; i < 3; ++i) {
      const grpc::Status status = Cancel(stub);
      EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED)
          << status.error_message();
    }
    EXPECT_THAT(server.LastRecord(),
                AllOf(HasSubstr("\"identity\":\"local\""),
                      HasSubstr("\"peer\":\"ipv4:127.0.0.1:"),
                      HasSubstr(absl::StrCat("\"uid\":\"", geteuid(), "\""))));
  }
}

TEST(GrpcPortTest, TheServersUserNeedsNoTokenOverTls) {
  const tls::TestAuthority authority;
  ServerAtPort server(FreeCallers::kOwnUsers, "127.0.0.1",
                      authority.Server("127.0.0.1"));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority.own().certificate;
  const Stub stub = server.StubTo("127.0.0.1", grpc::SslCredentials(options));
  EXPECT_EQ(Cancel(stub).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(server.LastRecord(),
              HasSubstr(absl::StrCat("\"uid\":\"", geteuid(), "\"")));
}

TEST(GrpcPortTest, AnotherUserNeedsATokenAndIsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  ServerAtPort server(FreeCallers::kOwnUsers, "127.0.0.1");
  const Stub stub = server.StubOf(kNobody);
  const grpc::Status denied = Cancel(stub);
  EXPECT_EQ(denied.error_code(), grpc::UNAUTHENTICATED);
  EXPECT_THAT(denied.error_message(),
              AllOf(HasSubstr("uid 65534"), HasSubstr("--token-file")));
  EXPECT_THAT(server.LastRecord(), AllOf(HasSubstr("\"event\":\"denied\""),
                                         HasSubstr("\"uid\":\"65534\"")));
  const std::string secret = *NewSecret();
  v1::StoredToken token;
  token.mutable_token()->set_id(1);
  token.mutable_token()->set_role(v1::USER);
  token.set_secret_sha256(DigestOf(secret));
  server.gate().tokens().Put(token);
  EXPECT_EQ(Cancel(stub, "Bearer " + secret).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(Cancel(stub).error_code(), grpc::UNAUTHENTICATED);
}

TEST(GrpcPortTest, UsersBeyondTheGuardsAreDeniedToo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  ServerAtPort server(FreeCallers::kOwnUsers, "127.0.0.1");
  for (size_t i = 0; i < 2 * GrpcPort::kMostOthers; ++i) {
    const uid_t uid = 4000 + static_cast<uid_t>(i);
    const grpc::Status denied = Cancel(server.StubOf(uid));
    EXPECT_EQ(denied.error_code(), grpc::UNAUTHENTICATED) << uid;
    if (i < GrpcPort::kMostOthers) {
      EXPECT_THAT(denied.error_message(), HasSubstr(absl::StrCat("uid ", uid)));
    }
  }
  EXPECT_EQ(Cancel(server.StubTo("127.0.0.1")).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST(GrpcPortTest, WhereTokensAreWantedNoUserIsFree) {
  ServerAtPort server(FreeCallers::kNone, "127.0.0.1");
  EXPECT_EQ(Cancel(server.StubTo("127.0.0.1")).error_code(),
            grpc::UNAUTHENTICATED);
}

TEST(GrpcPortTest, WithoutChecksEveryUserIsFree) {
  ServerAtPort server(FreeCallers::kAll, "127.0.0.1");
  EXPECT_EQ(Cancel(server.StubTo("127.0.0.1")).error_code(),
            grpc::UNIMPLEMENTED);
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  EXPECT_EQ(Cancel(server.StubOf(kNobody)).error_code(), grpc::UNIMPLEMENTED);
}

TEST(GrpcPortTest, UsersAreNotedWithoutChecksIfTheGateAsks) {
  for (const bool asks : {false, true}) {
    ServerAtPort server(FreeCallers::kAll, "127.0.0.1", {}, asks);
    EXPECT_EQ(Cancel(server.StubTo("127.0.0.1")).error_code(),
              grpc::UNIMPLEMENTED);
    EXPECT_EQ(absl::StrContains(server.LastRecord(),
                                absl::StrCat("\"uid\":\"", geteuid(), "\"")),
              asks);
    if (geteuid() != 0) continue;
    EXPECT_EQ(Cancel(server.StubOf(kNobody)).error_code(), grpc::UNIMPLEMENTED);
    EXPECT_EQ(absl::StrContains(server.LastRecord(), "\"uid\":\"65534\""),
              asks);
  }
}

}  // namespace
}  // namespace gpupool::server
