#include "server/api/rpc/call_peer.h"

#include <gtest/gtest.h>

#include <optional>

#include "server/auth/call_record.h"

namespace gpupool::server {
namespace {

const CallMetadata& OverHttp() {
  static const auto& metadata = *new CallMetadata{
      {kHttpPeerKey, "http:127.0.0.1"}, {kHttpUidKey, "1000"}};
  return metadata;
}

TEST(CallPeerTest, ACallWithoutASocketComesOverHttp) {
  const CallPeer peer = PeerBy("inproc", "", OverHttp());
  EXPECT_EQ(peer.address, "http:127.0.0.1");
  EXPECT_EQ(peer.user.uid, 1000u);
  EXPECT_EQ(PeerBy("inproc", "", {}).address, "inproc");
  EXPECT_EQ(PeerBy("inproc", "", {}).user.uid, std::nullopt);
}

TEST(CallPeerTest, ACallOverASocketCannotClaimAnotherPeer) {
  for (const char* address : {"ipv4:10.0.0.1:7", "ipv6:%5B2001:db8::1%5D:7",
                              "unix:", "unix-abstract:x"}) {
    EXPECT_EQ(PeerBy(address, "", OverHttp()).address, address);
    EXPECT_EQ(PeerBy(address, "", OverHttp()).user.uid, std::nullopt);
    EXPECT_EQ(PeerBy(address, "7", OverHttp()).user.uid, 7u);
  }
}

TEST(CallPeerTest, AUidThatCannotBeReadIsNotKnown) {
  for (const char* uid : {"", "x", "-1", "4294967296"}) {
    const CallMetadata metadata = {{kHttpUidKey, uid}};
    EXPECT_EQ(PeerBy("inproc", "", metadata).user.uid, std::nullopt) << uid;
  }
}

TEST(CallPeerTest, TheFirstValueOfAKeyCounts) {
  EXPECT_EQ(ValueOf(OverHttp(), kHttpUidKey), "1000");
  EXPECT_EQ(ValueOf(OverHttp(), "other"), "");
}

}  // namespace
}  // namespace gpupool::server
