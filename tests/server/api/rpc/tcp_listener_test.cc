#include "server/api/rpc/tcp_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>

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

// Lets this process open no further file.
void OpenNoMoreFiles() {
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next);
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min(static_cast<rlim_t>(next), limit.rlim_max);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(TcpListenerTest, GoesOnWhenFilesMayBeOpenedAgain) {
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(10);
  const auto logger = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  auto listener = TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::atomic<int> taken = 0;
  (*listener)->Start([&](int connection) {
    ++taken;
    close(connection);
  });
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>((*listener)->port()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  OpenNoMoreFiles();
  EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_TRUE(WaitUntil([&] { return !log->last_formatted().empty(); }));
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(WaitUntil([&] { return taken == 1; }));
  close(client);
  spdlog::set_default_logger(logger);
}

}  // namespace
}  // namespace gpupool::server
