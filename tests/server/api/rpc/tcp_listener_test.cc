#include "server/api/rpc/tcp_listener.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/server/auth/connect_as.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

TEST(TcpListenerTest, GivesEachConnectionAwayOnce) {
  auto listener = TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_GT((*listener)->port(), 0);
  std::atomic<int> taken = 0;
  (*listener)->Start([&](int connection) {
    ++taken;
    close(connection);
  });
  for (int i = 1; i <= 3; ++i) {
    const int client = ConnectTo("127.0.0.1", (*listener)->port());
    EXPECT_GE(client, 0);
    EXPECT_TRUE(WaitUntil([&] { return taken == i; }));
    close(client);
  }
}

TEST(TcpListenerTest, AllAddressesAreThoseOfIp6Too) {
  const auto listener = TcpListener::Listen("0.0.0.0", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int ip4 = ConnectTo("127.0.0.1", (*listener)->port());
  EXPECT_GE(ip4, 0);
  close(ip4);
  const auto own = TcpListener::Listen("::1", 0);
  if (!own.ok()) GTEST_SKIP() << "there is no IPv6: " << own.status();
  const int ip6 = ConnectTo("::1", (*listener)->port());
  EXPECT_GE(ip6, 0);
  close(ip6);
}

TEST(TcpListenerTest, ATakenPortIsRefused) {
  const auto first = TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto port = static_cast<uint16_t>((*first)->port());
  EXPECT_TRUE(
      absl::IsUnavailable(TcpListener::Listen("127.0.0.1", port).status()));
  EXPECT_TRUE(
      absl::IsUnavailable(TcpListener::Listen("192.0.2.1", 0).status()));
  EXPECT_TRUE(absl::IsUnavailable(TcpListener::Listen("name", 0).status()));
}

TEST(TcpListenerTest, AfterStopThePortIsFree) {
  const auto first = TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const int port = (*first)->port();
  (*first)->Start([](int connection) { close(connection); });
  (*first)->Stop();
  (*first)->Stop();
  EXPECT_LT(ConnectTo("127.0.0.1", port), 0);
  EXPECT_TRUE(
      TcpListener::Listen("127.0.0.1", static_cast<uint16_t>(port)).ok());
}

}  // namespace
}  // namespace gpupool::server
