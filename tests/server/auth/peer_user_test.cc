#include "server/auth/peer_user.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/server/auth/connect_as.h"

namespace gpupool::server {
namespace {

// A port of all addresses of this machine, also those of IPv4.
class OpenPort {
 public:
  OpenPort() : socket_(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int no = 0;
    setsockopt(socket_, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    port_ = ntohs(address.sin6_port);
  }
  ~OpenPort() { close(socket_); }
  OpenPort(const OpenPort&) = delete;
  OpenPort& operator=(const OpenPort&) = delete;

  int port() const { return port_; }

  // Returns who made the next connection.
  PeerUser NextUser() const {
    const int accepted = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    const PeerUser user = PeerUserOf(accepted);
    close(accepted);
    return user;
  }

 private:
  const int socket_;
  int port_ = 0;
};

class PeerUserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status users = CheckPeerUsers();
    if (!users.ok()) GTEST_SKIP() << users;
  }

  const OpenPort port_;
};

TEST_F(PeerUserTest, TheUserOfThisProcessIsKnownByEachLoopbackAddress) {
  for (const char* address : {"127.0.0.1", "127.9.9.9", "::1"}) {
    const int client = ConnectTo(address, port_.port());
    if (client < 0 && address == std::string("::1")) continue;  // no IPv6
    const PeerUser user = port_.NextUser();
    EXPECT_EQ(user.uid, geteuid()) << address;
    EXPECT_FALSE(user.other_machine) << address;
    close(client);
  }
}

TEST_F(PeerUserTest, AnotherUserIsKnownAfterItsProcessHasEnded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  for (const uid_t uid : {kNobody, uid_t{4242}}) {
    const int client = ConnectAs(uid, "127.0.0.1", port_.port());
    ASSERT_GE(client, 0);
    EXPECT_EQ(port_.NextUser().uid, uid);
    close(client);
  }
}

// The kernel says uid 0 of a socket that no process has open.
TEST_F(PeerUserTest, ASocketThatItsOwnerHasClosedIsNotRoots) {
  const int client = ConnectTo("127.0.0.1", port_.port());
  EXPECT_EQ(write(client, "x", 1), 1);
  close(client);
  const PeerUser user = port_.NextUser();
  EXPECT_FALSE(user.uid.has_value());
  EXPECT_FALSE(user.other_machine);
}

TEST_F(PeerUserTest, AConnectionThatWasResetHasNoUser) {
  const int client = ConnectTo("127.0.0.1", port_.port());
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close(client);
  EXPECT_FALSE(port_.NextUser().uid.has_value());
}

TEST_F(PeerUserTest, AClientThatHasSentAllIsKnown) {
  const int client = ConnectTo("127.0.0.1", port_.port());
  shutdown(client, SHUT_WR);
  EXPECT_EQ(port_.NextUser().uid, geteuid());
  close(client);
}

TEST_F(PeerUserTest, WhatIsNoConnectionHasNoUser) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_FALSE(PeerUserOf(file).uid.has_value());
  close(file);
  EXPECT_FALSE(PeerUserOf(-1).uid.has_value());
  int pair[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  EXPECT_FALSE(PeerUserOf(pair[0]).uid.has_value());
  close(pair[0]);
  close(pair[1]);
}

}  // namespace
}  // namespace gpupool::server
