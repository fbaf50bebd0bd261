#include "scheduler/state/reservations.h"

#include <gtest/gtest.h>

namespace gpupool::scheduler {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

absl::Time In(int minutes) { return kStart + absl::Minutes(minutes); }

struct Minutes {
  int from = 0;
  int to = 0;
};

TenantReservation Of(uint64_t id, const std::string& tenant, Minutes time,
                     std::vector<uint64_t> devices = {0}) {
  TenantReservation reservation{.id = ReservationId(id),
                                .name = "r" + std::to_string(id),
                                .tenant = tenant,
                                .start = In(time.from),
                                .end = In(time.to)};
  for (uint64_t device : devices) {
    reservation.devices.push_back(DeviceId(device));
  }
  return reservation;
}

TEST(ReservationsTest, TakesATenantAndThoseBelowIt) {
  const TenantReservation reservation = Of(1, "lab.vision", {0, 1});
  EXPECT_TRUE(reservation.Takes("lab.vision"));
  EXPECT_TRUE(reservation.Takes("lab.vision.interns"));
  for (const char* other : {"lab", "lab.visions", "lab.vis", "", "vision"}) {
    EXPECT_FALSE(reservation.Takes(other)) << other;
  }
}

TEST(ReservationsTest, ADeviceIsReservedFromTheStartToBeforeTheEnd) {
  Reservations all;
  all.Add(Of(1, "a", {10, 20}, {0, 3}));
  all.Add(Of(2, "b", {20, 30}));
  const auto at = [&](uint64_t device, int minute) -> uint64_t {
    const TenantReservation* found = all.At(DeviceId(device), In(minute));
    return found == nullptr ? 0 : found->id.value();
  };
  EXPECT_EQ(at(0, 9), 0u);
  EXPECT_EQ(at(0, 10), 1u);
  EXPECT_EQ(at(0, 19), 1u);
  EXPECT_EQ(at(0, 20), 2u);
  EXPECT_EQ(at(0, 30), 0u);
  EXPECT_EQ(at(3, 15), 1u);
  EXPECT_EQ(at(3, 20), 0u);
  EXPECT_EQ(at(1, 15), 0u);
  EXPECT_EQ(at(99, 15), 0u);
  all.Remove(ReservationId(1));
  EXPECT_EQ(at(0, 15), 0u);
  EXPECT_EQ(at(0, 25), 2u);
  EXPECT_EQ(all.Of(DeviceId(0)).size(), 1u);
  all.Remove(ReservationId(7));
}

TEST(ReservationsTest, OneToComeIsAgainstWhoeverWouldHaveToGoTooSoon) {
  Reservations all;
  all.Add(Of(1, "a", {10, 20}));
  const auto is_against = [&](const Visitor& visitor, int minute) {
    return all.Against(DeviceId(0), visitor, In(minute)) != nullptr;
  };
  const Visitor other{.tenant = "b", .least_run = absl::Minutes(2)};
  EXPECT_FALSE(is_against(other, 0));
  EXPECT_FALSE(is_against(other, 8));  // just long enough
  EXPECT_TRUE(is_against(other, 9));
  EXPECT_TRUE(is_against(other, 10));
  EXPECT_FALSE(is_against(other, 20));
  Visitor brief = other;
  brief.left = absl::Minutes(1);
  EXPECT_FALSE(is_against(brief, 9));  // ends in time
  EXPECT_TRUE(is_against(brief, 10));
  const Visitor own{.tenant = "a.x", .least_run = absl::Minutes(2)};
  EXPECT_FALSE(is_against(own, 9));
  EXPECT_FALSE(is_against(own, 15));
}

TEST(ReservationsTest, AfterOnesOwnComesTheNext) {
  Reservations all;
  all.Add(Of(1, "a", {10, 20}));
  all.Add(Of(2, "b", {20, 30}));
  const Visitor own{.tenant = "a", .least_run = absl::Minutes(2)};
  EXPECT_EQ(all.Against(DeviceId(0), own, In(15)), nullptr);
  const TenantReservation* next = all.Against(DeviceId(0), own, In(19));
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->id, ReservationId(2));
}

TEST(ReservationsTest, KnowsWhenTheNextOneBeginsOrEnds) {
  Reservations all;
  EXPECT_EQ(all.NextChange(), absl::InfiniteFuture());
  all.Add(Of(1, "a", {10, 20}));
  all.Add(Of(2, "b", {15, 30}, {1}));
  EXPECT_EQ(all.NextChange(), In(10));
  all.SetBegun(ReservationId(1));
  EXPECT_EQ(all.NextChange(), In(15));
  all.SetBegun(ReservationId(2));
  EXPECT_EQ(all.NextChange(), In(20));
  EXPECT_TRUE(all.Name("b.c"));
  EXPECT_FALSE(all.Name("c"));
}

TEST(ReservationsTest, IsToldInWords) {
  const TenantReservation reservation = Of(1, "lab", {0, 60});
  EXPECT_EQ(ReservedText("cpu:0", reservation, In(5)),
            "cpu:0 is reserved for lab until 1970-01-01T02:00:00+00:00");
  EXPECT_EQ(ReservedText("cpu:0", reservation, In(-5)),
            "cpu:0 is reserved for lab from 1970-01-01T01:00:00+00:00 until "
            "1970-01-01T02:00:00+00:00");
}

}  // namespace
}  // namespace gpupool::scheduler
