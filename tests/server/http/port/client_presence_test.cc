#include "server/http/port/client_presence.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(ClientPresenceTest, ALossIsToldOnceItHappens) {
  const auto client = std::make_shared<ClientPresence>();
  int told = 0;
  const OnClientLoss loss(client, [&] { ++told; });
  EXPECT_EQ(told, 0);
  client->Lose();
  EXPECT_EQ(told, 1);
}

TEST(ClientPresenceTest, AnEarlierLossIsToldAtOnce) {
  const auto client = std::make_shared<ClientPresence>();
  client->Lose();
  int told = 0;
  const OnClientLoss loss(client, [&] { ++told; });
  EXPECT_EQ(told, 1);
}

TEST(ClientPresenceTest, NothingIsToldAfterwards) {
  const auto client = std::make_shared<ClientPresence>();
  int told = 0;
  {
    const OnClientLoss loss(client, [&] { ++told; });
  }
  client->Lose();
  EXPECT_EQ(told, 0);
  const OnClientLoss none(nullptr, [&] { ++told; });
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace gpupool::server
