#include "scheduler/state/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;

DeviceId Id(uint64_t value) { return DeviceId(value); }

std::vector<DeviceId> Ids(uint64_t count) {
  std::vector<DeviceId> ids;
  for (uint64_t i = 0; i < count; ++i) ids.push_back(Id(i));
  return ids;
}

// Returns two NUMA nodes of four devices. In each, 0-1 and 2-3 have NVLink.
Topology Pairs() {
  Topology topology;
  for (uint64_t a = 0; a < 8; ++a) {
    for (uint64_t b = 0; b < a; ++b) {
      const Link far = a / 4 == b / 4 ? Link::kNode : Link::kSystem;
      topology.Connect(Id(a), Id(b), a / 2 == b / 2 ? Link::kNvlink : far);
    }
  }
  return topology;
}

TEST(TopologyTest, LinksHaveTheWordsOfTheDriversTool) {
  for (Link link : {Link::kSystem, Link::kNode, Link::kHostBridge,
                    Link::kSwitches, Link::kSwitch, Link::kNvlink}) {
    EXPECT_EQ(ParseLink(ToString(link)), link);
  }
  EXPECT_EQ(ToString(Link::kNvlink), "NVL");
  EXPECT_EQ(ParseLink(""), std::nullopt);
  EXPECT_EQ(ParseLink("nvl"), std::nullopt);
}

TEST(TopologyTest, KnowsBothWaysAndNothingElse) {
  Topology topology;
  EXPECT_TRUE(topology.empty());
  EXPECT_EQ(topology.Between(Id(3), Id(1)), Link::kUnknown);
  topology.Connect(Id(1), Id(3), Link::kNvlink);
  EXPECT_FALSE(topology.empty());
  EXPECT_EQ(topology.Between(Id(3), Id(1)), Link::kNvlink);
  EXPECT_EQ(topology.Between(Id(1), Id(3)), Link::kNvlink);
  EXPECT_EQ(topology.Between(Id(0), Id(3)), Link::kUnknown);
  EXPECT_EQ(topology.Between(Id(1), Id(9)), Link::kUnknown);
}

TEST(TopologyTest, TheSlowestLinkCountsFirst) {
  const Topology topology = Pairs();
  // 1 and 2 come first, but are not a pair.
  EXPECT_THAT(BestConnected(topology, {Id(1), Id(2), Id(6), Id(7)}, 2).ids,
              ElementsAre(Id(6), Id(7)));
  // Takes three devices of one NUMA node, although 6-7 is a faster link than
  // any of theirs.
  EXPECT_THAT(
      BestConnected(topology, {Id(6), Id(7), Id(0), Id(2), Id(3)}, 3).ids,
      ElementsAre(Id(0), Id(2), Id(3)));
}

TEST(TopologyTest, ThenAllLinksBetweenThem) {
  // Both are within a NUMA node, but only one contains a pair.
  EXPECT_THAT(
      BestConnected(Pairs(), {Id(0), Id(2), Id(4), Id(6), Id(7)}, 3).ids,
      ElementsAre(Id(4), Id(6), Id(7)));
}

TEST(TopologyTest, ThenWhatStaysTogether) {
  // One device must not be taken from a free pair.
  EXPECT_THAT(BestConnected(Pairs(), {Id(0), Id(1), Id(2)}, 1).ids,
              ElementsAre(Id(2)));
  // Both pairs are equal, but taking the pair of the emptier node would cut
  // more links.
  EXPECT_THAT(
      BestConnected(Pairs(), {Id(0), Id(1), Id(2), Id(3), Id(6), Id(7)}, 2).ids,
      ElementsAre(Id(6), Id(7)));
}

TEST(TopologyTest, OfEqualOnesTheFirst) {
  Topology same;
  for (uint64_t a = 0; a < 8; ++a) {
    for (uint64_t b = 0; b < a; ++b) same.Connect(Id(a), Id(b), Link::kNvlink);
  }
  EXPECT_THAT(BestConnected(same, {Id(5), Id(1), Id(7), Id(0)}, 2).ids,
              ElementsAre(Id(1), Id(5)));
  EXPECT_THAT(BestConnected(same, {Id(5), Id(1)}, 2).ids,
              ElementsAre(Id(1), Id(5)));
}

TEST(TopologyTest, TellsHowWellTheyAreConnected) {
  const Connection pair =
      BestConnected(Pairs(), {Id(0), Id(1), Id(2), Id(4)}, 2).connection;
  EXPECT_EQ(pair.slowest, Link::kNvlink);
  EXPECT_EQ(pair.inside, 6u);
  // 0 and 1 each have links to 2 (NODE) and to 4 (SYS).
  EXPECT_EQ(pair.cut, 2u * (2 + 1));
}

// Compares the choice that is grown with all choices, on small machines.
TEST(TopologyTest, ManyDevicesAreChosenInNoWorseAnIsland) {
  const uint32_t seed = 20261122;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 50; ++trial) {
    // 32 devices in islands of 8, in any order.
    std::vector<DeviceId> free = Ids(32);
    std::shuffle(free.begin(), free.end(), random);
    Topology topology;
    for (uint64_t a = 0; a < 32; ++a) {
      for (uint64_t b = 0; b < a; ++b) {
        topology.Connect(Id(a), Id(b),
                         a / 8 == b / 8 ? Link::kNvlink : Link::kSystem);
      }
    }
    // All but three devices of one island are taken, and none of another.
    free.erase(std::remove_if(free.begin(), free.end(),
                              [](DeviceId id) {
                                return id.value() < 8 && id.value() > 2;
                              }),
               free.end());
    const auto five = BestConnected(topology, free, 5);
    EXPECT_EQ(five.connection.slowest, Link::kNvlink);
    EXPECT_EQ(five.connection.inside, 10u * 6);
    const auto nine = BestConnected(topology, free, 9);
    EXPECT_EQ(nine.connection.slowest, Link::kSystem);
    // Eight devices of an island, and one from the island that is already cut.
    EXPECT_EQ(nine.connection.inside, 28u * 6 + 8);
    EXPECT_THAT(nine.ids.front().value(), ::testing::Lt(3u));
  }
}

}  // namespace
}  // namespace gpupool::scheduler
