#include "server/http/port/listening_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(ListenTest, PortZeroIsAnyFreeOne) {
  const auto one = Listen("127.0.0.1", 0);
  const auto two = Listen("localhost", 0);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_GT(one->port, 0);
  EXPECT_GT(two->port, 0);
  EXPECT_FALSE(one->ip6);
  int on = 0;
  socklen_t size = sizeof(on);
  EXPECT_EQ(getsockopt(one->socket, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
  EXPECT_EQ(on, 1);
  close(one->socket);
  close(two->socket);
}

TEST(ListenTest, APortThatIsTakenIsNamed) {
  const auto one = Listen("127.0.0.1", 0);
  ASSERT_TRUE(one.ok()) << one.status();
  const auto two = Listen("127.0.0.1", one->port);
  EXPECT_TRUE(absl::IsUnavailable(two.status())) << two.status();
  EXPECT_THAT(std::string(two.status().message()),
              HasSubstr("127.0.0.1:" + std::to_string(one->port)));
  close(one->socket);
}

TEST(ListenTest, AnAddressThatIsNoneIsNamed) {
  const auto one = Listen("300.1.1.1", 80);
  EXPECT_TRUE(absl::IsInvalidArgument(one.status())) << one.status();
  EXPECT_THAT(std::string(one.status().message()), HasSubstr("300.1.1.1:80"));
}

}  // namespace
}  // namespace gpupool::server
