#include "server/api/rpc/stream_place.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

TEST(StreamPlaceTest, ATokenIsOneHolderFromEverywhere) {
  const Identity token{.token = 7, .name = "mia"};
  EXPECT_EQ(HolderOf(token, {.address = "ipv4:10.0.0.1:7"}), "token 7");
  EXPECT_EQ(HolderOf(token, {.address = "unix:", .user = {.uid = 1000}}),
            "token 7");
}

TEST(StreamPlaceTest, WithoutATokenAUserIsOneHolder) {
  EXPECT_EQ(
      HolderOf(Identity{}, {.address = "ipv4:127.0.0.1:7", .user = {.uid = 0}}),
      "uid 0");
}

TEST(StreamPlaceTest, AMachineIsOneHolderOverAllItsPortsAndBothProtocols) {
  for (const char* address :
       {"ipv4:10.0.0.1:7", "ipv4:10.0.0.1:8", "http:10.0.0.1"}) {
    EXPECT_EQ(HolderOf(Identity{}, {.address = address}),
              "the machine 10.0.0.1");
  }
  for (const char* address : {"ipv6:%5B2001:db8::1%5D:7", "http:2001:db8::1"}) {
    EXPECT_EQ(HolderOf(Identity{}, {.address = address}),
              "the machine 2001:db8::1");
  }
}

TEST(StreamPlaceTest, TheNameOfASocketsEndIsTheClientsOwnAndDoesNotCount) {
  for (const char* address : {"unix:", "unix:/tmp/a", "unix-abstract:b"}) {
    EXPECT_EQ(HolderOf(Identity{}, {.address = address}), "the socket");
  }
}

TEST(StreamPlaceTest, ACallerWhoseTokenHasEndedIsKnownByItsMachine) {
  EXPECT_EQ(HolderOf(absl::UnauthenticatedError("expired"),
                     {.address = "ipv4:10.0.0.1:7"}),
            "the machine 10.0.0.1");
}

}  // namespace
}  // namespace gpupool::server
