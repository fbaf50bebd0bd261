#include "server/api/rpc/method_guard.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "server/api/rpc/server_credentials.h"
#include "server/auth/secret.h"
#include "tests/server/store/temp_dir.h"
#include "tests/tls/test_authority.h"

namespace gpupool::server {
namespace {

// A server whose methods are all unimplemented, so that a call that is admitted
// ends with UNIMPLEMENTED.
class GuardedServer {
 public:
  explicit GuardedServer(const tls::TlsFiles& files) {
    secret_ = *NewSecret();
    v1::StoredToken stored;
    stored.mutable_token()->set_id(1);
    stored.mutable_token()->set_role(v1::VIEWER);
    stored.set_secret_sha256(DigestOf(secret_));
    gate_.tokens().Put(stored);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(
        "127.0.0.1:0",
        ServerCredentialsOf(files, 5)(std::make_shared<MethodGuard>(&gate_)),
        &port_);
    builder.AddListeningPort(
        "unix:" + socket_,
        GuardedPlainCredentials(
            std::make_shared<MethodGuard>(&gate_, Door::kSocket)));
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~GuardedServer() { server_->Shutdown(); }

  std::string Bearer() const { return "Bearer " + secret_; }
  const std::string& socket() const { return socket_; }

  std::unique_ptr<v1::JobService::Stub> Stub(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    return v1::JobService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), credentials));
  }
  std::unique_ptr<v1::JobService::Stub> SocketStub() const {
    return v1::JobService::NewStub(grpc::CreateChannel(
        "unix:" + socket_, grpc::InsecureChannelCredentials()));
  }

 private:
  const TempDir folder_;
  const std::string socket_ = folder_ / "socket";
  AccessGate gate_{FreeCallers::kNone, absl::Now};
  std::string secret_;
  v1::JobService::Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

grpc::Status Get(v1::JobService::Stub& stub, const std::string& header) {
  grpc::ClientContext context;
  if (!header.empty()) context.AddMetadata("authorization", header);
  v1::Job job;
  return stub.GetJob(&context, {}, &job);
}

void ExpectGuarded(const GuardedServer& server, v1::JobService::Stub& stub) {
  EXPECT_EQ(Get(stub, "").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(Get(stub, "Bearer x").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(Get(stub, server.Bearer()).error_code(), grpc::UNIMPLEMENTED);
  grpc::ClientContext context;
  context.AddMetadata("authorization", server.Bearer());
  v1::Job job;
  const grpc::Status denied = stub.CancelJob(&context, {}, &job);
  EXPECT_EQ(denied.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(denied.error_message(),
            "/gpupool.v1.JobService/CancelJob needs the role user; token 1 has "
            "the role viewer");
}

TEST(MethodGuardTest, ChecksCallsOverAPlainPort) {
  const GuardedServer server({});
  ExpectGuarded(server, *server.Stub(grpc::InsecureChannelCredentials()));
}

TEST(MethodGuardTest, ChecksCallsOverTls) {
  const tls::TestAuthority authority;
  const GuardedServer server(authority.Server("127.0.0.1"));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority.own().certificate;
  ExpectGuarded(server, *server.Stub(grpc::SslCredentials(options)));
}

TEST(MethodGuardTest, TheSocketNeedsNoToken) {
  const GuardedServer server({});
  const auto stub = server.SocketStub();
  EXPECT_EQ(Get(*stub, "").error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(Get(*stub, server.Bearer()).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(Get(*stub, "Bearer x").error_code(), grpc::UNAUTHENTICATED);
}

TEST(MethodGuardTest, TheSocketIsForTheUserOfTheProcessOnly) {
  const mode_t mask = umask(0);
  const GuardedServer server({});
  EXPECT_EQ(umask(mask), 0u) << "the mask is as before";
  struct stat file = {};
  ASSERT_EQ(lstat(server.socket().c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 07777, 0600u);
}

TEST(MethodGuardTest, ThePathOfASocketIsTakenAsItIs) {
  const TempDir folder;
  const std::string path = folder / "a%41 b";
  v1::JobService::Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, GuardedPlainCredentials(nullptr));
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  struct stat file = {};
  EXPECT_EQ(lstat(path.c_str(), &file), 0);
  server->Shutdown();
}

TEST(DoorOfTest, OnlySocketsAreSockets) {
  for (const char* peer : {"unix:", "unix:/run/x", "unix-abstract:x"}) {
    EXPECT_EQ(DoorOf(peer), Door::kSocket) << peer;
  }
  for (const char* peer : {"", "inproc", "ipv4:127.0.0.1:9", "ipv6:[::1]:9"}) {
    EXPECT_EQ(DoorOf(peer), Door::kPort) << peer;
  }
}

TEST(MethodGuardTest, ChecksStreamsAndTwoHeadersAreNoToken) {
  const GuardedServer server({});
  const auto stub = server.Stub(grpc::InsecureChannelCredentials());
  grpc::ClientContext stream;
  v1::JobEvent event;
  const auto reader = stub->WatchJob(&stream, {});
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::UNAUTHENTICATED);
  grpc::ClientContext twice;
  twice.AddMetadata("authorization", server.Bearer());
  twice.AddMetadata("authorization", server.Bearer());
  v1::Job job;
  EXPECT_EQ(stub->GetJob(&twice, {}, &job).error_code(), grpc::UNAUTHENTICATED);
}

TEST(MethodGuardTest, FindsOneHeader) {
  grpc::AuthMetadataProcessor::InputMetadata metadata;
  EXPECT_EQ(AuthorizationIn(metadata), "");
  metadata.emplace("authorization", "Bearer x");
  EXPECT_EQ(AuthorizationIn(metadata), "Bearer x");
  metadata.emplace("authorization", "Bearer x");
  EXPECT_EQ(SecretIn(AuthorizationIn(metadata)), "");
}

TEST(MethodGuardTest, AnEmptyHeaderIsNotTheSameAsNone) {
  grpc::AuthMetadataProcessor::InputMetadata metadata;
  metadata.emplace("authorization", "");
  EXPECT_EQ(AuthorizationIn(metadata), kEmptyAuthorization);
}

}  // namespace
}  // namespace gpupool::server
