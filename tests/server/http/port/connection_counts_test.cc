#include "server/http/port/connection_counts.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

ClientAddress Of(const std::string& text) {
  sockaddr_storage address = {};
  auto& ip4 = reinterpret_cast<sockaddr_in&>(address);
  auto& ip6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text.c_str(), &ip4.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &ip6.sin6_addr), 1);
    address.ss_family = AF_INET6;
  }
  return ClientAddressOf(address);
}

TEST(ClientAddressTest, KnowsThisMachine) {
  for (const char* text :
       {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(Of(text).loopback) << text;
  }
  for (const char* text :
       {"10.0.0.1", "::2", "::ffff:10.0.0.1", "2001:db8::1"}) {
    EXPECT_FALSE(Of(text).loopback) << text;
  }
}

TEST(ClientAddressTest, ClientsOfOneNetworkAreAGroup) {
  EXPECT_EQ(Of("10.0.0.1").text, "10.0.0.1");
  EXPECT_EQ(Of("::ffff:10.0.0.1").text, "10.0.0.1");
  EXPECT_NE(Of("10.0.0.1").group, Of("10.0.0.2").group);
  EXPECT_EQ(Of("2001:db8::1").group, Of("2001:db8::ffff").group);
  EXPECT_NE(Of("2001:db8::1").group, Of("2001:db8:0:1::1").group);
}

TEST(ConnectionCountsTest, AClientHasALimitAndThisMachineHasNone) {
  ConnectionCounts counts({.total = 100, .by_client = 2});
  EXPECT_TRUE(counts.Take(Of("10.0.0.1")));
  EXPECT_TRUE(counts.Take(Of("10.0.0.1")));
  EXPECT_FALSE(counts.Take(Of("10.0.0.1")));
  EXPECT_TRUE(counts.Take(Of("10.0.0.2")));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(counts.Take(Of("127.0.0.1")));
  counts.GiveBack(Of("10.0.0.1"));
  EXPECT_TRUE(counts.Take(Of("10.0.0.1")));
  EXPECT_EQ(counts.total(), 53u);
}

TEST(ConnectionCountsTest, OthersLeaveRoomForThisMachine) {
  ConnectionCounts counts({.total = 8, .by_client = 100});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(counts.Take(Of("10.0.0.1")));
  EXPECT_FALSE(counts.Take(Of("10.0.0.1")));
  EXPECT_TRUE(counts.Take(Of("127.0.0.1")));
  EXPECT_TRUE(counts.Take(Of("::1")));
  EXPECT_FALSE(counts.Take(Of("127.0.0.1")));
  counts.GiveBack(Of("127.0.0.1"));
  EXPECT_TRUE(counts.Take(Of("127.0.0.1")));
}

}  // namespace
}  // namespace gpupool::server
