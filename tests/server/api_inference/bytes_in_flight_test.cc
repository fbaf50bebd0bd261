#include "server/api/inference/bytes_in_flight.h"

#include <limits>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(BytesInFlightTest, AdmitsUpToTheLimitExactly) {
  BytesInFlight gate(10);
  const auto first = gate.Admit(6);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(gate.Admit(5).has_value());
  EXPECT_TRUE(gate.Admit(4).has_value());
  EXPECT_EQ(gate.used(), 6u);
}

TEST(BytesInFlightTest, GivesBytesBackOnceWhenATicketIsMoved) {
  BytesInFlight gate(10);
  {
    auto first = gate.Admit(10);
    auto second = std::move(first);
    EXPECT_EQ(gate.used(), 10u);
    second.reset();
    EXPECT_EQ(gate.used(), 0u);
  }
  EXPECT_EQ(gate.used(), 0u);
}

TEST(BytesInFlightTest, CountsTheBytesOfRefusedRequestsAsAsked) {
  BytesInFlight gate(10);
  const auto first = gate.Admit(6);
  EXPECT_FALSE(gate.Admit(5).has_value());
  EXPECT_EQ(gate.asked(), 11u);
  EXPECT_EQ(gate.used(), 6u);
}

TEST(BytesInFlightTest, HugeRequestsDoNotOverflow) {
  BytesInFlight gate(10);
  const auto some = gate.Admit(5);
  EXPECT_FALSE(gate.Admit(std::numeric_limits<uint64_t>::max()).has_value());
  EXPECT_FALSE(
      gate.Admit(std::numeric_limits<uint64_t>::max() - 4).has_value());
  EXPECT_EQ(gate.used(), 5u);
}

}  // namespace
}  // namespace gpupool::server
