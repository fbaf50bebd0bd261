#include "server/server_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "server/auth/secret.h"
#include "server/config.h"
#include "server/metrics/metrics.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

// A socket at a path. When it is closed, its file stays.
class BoundSocket {
 public:
  explicit BoundSocket(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(
        bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
    EXPECT_EQ(listen(fd_, 1), 0);
  }
  ~BoundSocket() { close(fd_); }
  BoundSocket(const BoundSocket&) = delete;
  BoundSocket& operator=(const BoundSocket&) = delete;

 private:
  const int fd_;
};

TEST(ClaimSocketTest, IsInTheStateFolderByDefault) {
  const TempDir directory;
  const auto path = ClaimSocket("auto", directory.path());
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(path->path, directory / kSocketFile);
  EXPECT_FALSE(std::filesystem::exists(path->path)) << "gRPC makes it";
  EXPECT_EQ(ClaimSocket("none", directory.path())->path, "");
  EXPECT_EQ(ClaimSocket(directory / "own", "/nowhere")->path,
            directory / "own");
}

TEST(ClaimSocketTest, TheSocketOfAnEndedServerIsRemoved) {
  const TempDir directory;
  const std::string path = directory / "socket";
  { const BoundSocket ended(path); }
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(ClaimSocket(path, "/nowhere")->path, path);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ClaimSocketTest, TheSocketOfALiveServerIsRefused) {
  const TempDir directory;
  const std::string path = directory / "socket";
  const BoundSocket live(path);
  const absl::Status refused = ClaimSocket(path, "/nowhere").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("another server listens at the socket " + path));
  EXPECT_TRUE(std::filesystem::exists(path));
}

// Two servers that start at once both find no socket, or that of an ended
// server, before either listens.
TEST(ClaimSocketTest, APathIsClaimedByOneServerAtATime) {
  const TempDir directory;
  const std::string path = directory / "socket";
  auto first = ClaimSocket(path, "/nowhere");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status refused = ClaimSocket(path, "/nowhere").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("another server listens at the socket " + path));
  EXPECT_TRUE(ClaimSocket(directory / "other", "/nowhere").ok());
  first->lock.Reset();
  EXPECT_TRUE(ClaimSocket(path, "/nowhere").ok());
}

TEST(ClaimSocketTest, ALinkAtTheLockIsNotFollowed) {
  const TempDir directory;
  const std::string path = directory / "socket";
  std::filesystem::create_symlink(directory / "precious", path + ".lock");
  const absl::Status refused = ClaimSocket(path, "/nowhere").status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_FALSE(std::filesystem::exists(directory / "precious"));
}

TEST(ClaimSocketTest, AFileThatIsNoSocketStays) {
  const TempDir directory;
  const std::string path = directory / "file";
  std::ofstream(path) << "precious";
  const absl::Status refused = ClaimSocket(path, "/nowhere").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is no socket"));
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
}

TEST(ClaimSocketTest, ThePathHasALimit) {
  const TempDir directory;
  const std::string begin = directory.path() + "/";
  const std::string longest = begin + std::string(107 - begin.size(), 'x');
  EXPECT_EQ(ClaimSocket(longest, "/nowhere")->path, longest);
  const absl::Status refused = ClaimSocket(longest + "x", "/nowhere").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("has 108 bytes, and at most 107 are possible"));
}

TEST(ClaimSocketTest, OnlyThePathThatWasAskedForMustWork) {
  const absl::Status refused =
      ClaimSocket("/nowhere/socket", "/nowhere").status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(ClaimSocket("auto", "/nowhere")->path, "");
}

class OpenGateTest : public ::testing::Test {
 protected:
  void Start(FreeCallers free = FreeCallers::kNone) {
    gate_.reset();
    store_.reset();
    store_ = *Store::Open(directory_ / "gpupool.db");
    auto gate = OpenGate(free, directory_.path(), store_.get(),
                         [this] { return now_; });
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
  }

  std::string Secret() const {
    std::string text;
    std::ifstream(directory_ / kAdminTokenFile) >> text;
    return text;
  }

  absl::StatusOr<Identity> Identify(const std::string& secret) {
    return gate_->Identify("Bearer " + secret);
  }

  TempDir directory_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::unique_ptr<Store> store_;
  std::unique_ptr<AccessGate> gate_;
};

TEST_F(OpenGateTest, TheFirstStartMakesAnAdminsTokenInAPrivateFile) {
  Start();
  const auto admin = Identify(Secret());
  ASSERT_TRUE(admin.ok()) << admin.status();
  EXPECT_EQ(admin->role, v1::ADMIN);
  EXPECT_EQ(
      std::filesystem::status(directory_ / kAdminTokenFile).permissions(),
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(OpenGateTest, LaterStartsKeepTheTokens) {
  Start();
  const std::string secret = Secret();
  Start();
  EXPECT_EQ(Secret(), secret);
  EXPECT_TRUE(Identify(secret).ok());
  EXPECT_EQ(gate_->tokens().size(), 1u);
}

TEST_F(OpenGateTest, AStartWithoutAnAdminMakesAnotherToken) {
  Start();
  const std::string first = Secret();
  v1::StoredToken row = (*store_->LoadTokens())[0];
  row.mutable_token()->mutable_revoke_time()->set_seconds(
      absl::ToUnixSeconds(now_));
  ASSERT_TRUE(store_->Commit({.upsert_tokens = {row}}).ok());
  Start();
  EXPECT_NE(Secret(), first);
  EXPECT_TRUE(absl::IsUnauthenticated(Identify(first).status()));
  EXPECT_TRUE(Identify(Secret()).ok());
}

TEST_F(OpenGateTest, ForgetsTokensThatEndedLongAgo) {
  Start();
  v1::StoredToken row;
  row.mutable_token()->set_id(store_->AllocateId(IdKind::kToken));
  row.mutable_token()->set_role(v1::VIEWER);
  row.mutable_token()->mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(now_));
  row.set_secret_sha256(DigestOf("a"));
  ASSERT_TRUE(store_->Commit({.upsert_tokens = {row}}).ok());
  now_ += absl::Hours(24 * 29);
  Start();
  EXPECT_EQ(gate_->tokens().size(), 2u);
  now_ += absl::Hours(24 * 2);
  Start();
  EXPECT_EQ(gate_->tokens().size(), 1u);
  EXPECT_EQ(store_->LoadTokens()->size(), 1u);
}

TEST_F(OpenGateTest, WithoutTokensNothingIsMade) {
  Start(FreeCallers::kAll);
  EXPECT_FALSE(gate_->checks_calls());
  EXPECT_FALSE(std::filesystem::exists(directory_ / kAdminTokenFile));
  EXPECT_TRUE(store_->LoadTokens()->empty());
}

TEST_F(OpenGateTest, WhereSomebodyIsFreeTokensWorkButNoneIsMade) {
  for (const FreeCallers free :
       {FreeCallers::kOwnUsers, FreeCallers::kCertificates}) {
    Start(free);
    EXPECT_TRUE(gate_->checks_calls());
    EXPECT_FALSE(std::filesystem::exists(directory_ / kAdminTokenFile));
  }
  Start(FreeCallers::kNone);
  const std::string secret = Secret();
  Start(FreeCallers::kOwnUsers);
  EXPECT_TRUE(Identify(secret).ok());
}

TEST(FreeCallersTest, ComeFromTheSettings) {
  Config config;
  EXPECT_EQ(FreeCallersOf(config), FreeCallers::kOwnUsers) << "the default";
  config.auth = "tokens";
  EXPECT_EQ(FreeCallersOf(config), FreeCallers::kNone);
  config.auth = "none";
  EXPECT_EQ(FreeCallersOf(config), FreeCallers::kAll);
  config.tls.client_ca = "ca.pem";
  EXPECT_EQ(FreeCallersOf(config), FreeCallers::kAll);
  config.auth = "local";
  EXPECT_EQ(FreeCallersOf(config), FreeCallers::kCertificates);
  config.auth = "tokens";
  EXPECT_EQ(FreeCallersOf(config), FreeCallers::kNone);
}

TEST_F(OpenGateTest, TheAuditLogIsKeptUnlessItIsOff) {
  Start();
  Metrics metrics;
  Config config;
  config.audit = "off";
  ASSERT_TRUE(
      KeepAuditLog(config, directory_.path(), &metrics, gate_.get()).ok());
  EXPECT_EQ(gate_->log(), nullptr);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "audit"));
  config.audit = "on";
  config.audit_file_bytes = 1 << 20;
  config.audit_files = 2;
  ASSERT_TRUE(
      KeepAuditLog(config, directory_.path(), &metrics, gate_.get()).ok());
  ASSERT_NE(gate_->log(), nullptr);
  EXPECT_TRUE(gate_->log()->Flush().ok());
  EXPECT_NE(
      metrics.Text().find("gpupool_audit_records_total{outcome=\"written\"} 1"),
      std::string::npos);
  gate_.reset();  // before the metrics, which it counts in
}

TEST_F(OpenGateTest, AnAuditLogThatCannotBeOpenedIsAnError) {
  Start();
  std::ofstream(directory_ / "audit") << "a file";
  Metrics metrics;
  Config config;
  config.audit = "on";
  const absl::Status status =
      KeepAuditLog(config, directory_.path(), &metrics, gate_.get());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST(ServerAccessTest, ThereIsSharedMemoryIfItIsOn) {
  AccessGate gate(FreeCallers::kAll, absl::Now);
  EXPECT_EQ(OpenRegions("off", &gate), nullptr);
  EXPECT_FALSE(gate.asks_users());
  EXPECT_NE(OpenRegions("on", &gate), nullptr);
  EXPECT_TRUE(gate.asks_users());
}

}  // namespace
}  // namespace gpupool::server
