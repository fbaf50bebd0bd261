#include "scheduler/order/tenant_order.h"

#include <gmock/gmock.h>

#include "scheduler/explain/waiting_reason.h"
#include "scheduler/order/queue_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Devices of 100 bytes. A job of 100 has a device to itself.
class TenantOrderTest : public SchedulerTest {
 protected:
  void Use(QueuePolicy policy, uint32_t devices) {
    state.SetPolicy(policy);
    for (uint32_t i = 0; i < devices; ++i) {
      AddReadyDevice(absl::StrCat("cuda:", i), 100);
    }
  }
  JobId SubmitAs(const std::string& tenant, int priority = 0,
                 uint32_t devices = 1) {
    const JobId id(++last_job);
    Send(JobSubmitted{.tenant = tenant,
                      .id = id,
                      .priority = priority,
                      .bytes = 100,
                      .device_count = devices});
    if (job(id).state == JobState::kStarting) Begin(id);
    return id;
  }
  bool Runs(JobId id) const { return IsLive(job(id).state); }
  // Returns the number of devices of each tenant, in order.
  std::vector<uint32_t> Devices(std::initializer_list<const char*> tenants) {
    std::vector<uint32_t> devices;
    for (const char* tenant : tenants) {
      devices.push_back(state.usage().Devices(tenant));
    }
    return devices;
  }
  // Ends the job that has run longest, so that others start.
  void EndOldest() {
    for (const auto& [id, job] : state.jobs()) {
      if (!IsLive(job.state)) continue;
      End(id, Outcome::kSucceeded);
      state.ForgetJob(id);
      return;
    }
  }
  std::vector<JobId> ToldToStop() {
    std::vector<JobId> jobs;
    for (const auto& [id, job] : state.jobs()) {
      if (job.stop_sent) jobs.push_back(id);
    }
    return jobs;
  }
};

TEST_F(TenantOrderTest, WhoSubmitsManyDoesNotGetAll) {
  Use({.order = Order::kFairShare}, 4);
  for (int i = 0; i < 20; ++i) SubmitAs("busy");
  for (int i = 0; i < 20; ++i) SubmitAs("modest");
  EXPECT_THAT(Devices({"busy", "modest"}), ElementsAre(4, 0));
  for (int i = 0; i < 4; ++i) {
    now += absl::Hours(1);
    EndOldest();
  }
  EXPECT_THAT(Devices({"busy", "modest"}), ElementsAre(2, 2));
}

TEST_F(TenantOrderTest, WithoutAPastDevicesAreDividedByWeight) {
  Use({.order = Order::kFairShare,
       .tenants = {{"a", {.weight = 3}}},
       .usage_half_life = absl::ZeroDuration()},
      8);
  Send(StartsHeld{true});
  for (int i = 0; i < 8; ++i) SubmitAs("a");
  for (int i = 0; i < 8; ++i) SubmitAs("b");
  Send(StartsHeld{false});
  EXPECT_THAT(Devices({"a", "b"}), ElementsAre(6, 2));
}

TEST_F(TenantOrderTest, SiblingsAreComparedBeforeTheirChildren) {
  Use({.order = Order::kFairShare, .usage_half_life = absl::ZeroDuration()}, 4);
  Send(StartsHeld{true});
  // Four tenants of one group and one of another: each group gets half.
  for (const char* tenant : {"lab.a", "lab.b", "lab.c", "lab.d"}) {
    SubmitAs(tenant);
    SubmitAs(tenant);
  }
  for (int i = 0; i < 4; ++i) SubmitAs("shop.x");
  Send(StartsHeld{false});
  EXPECT_THAT(Devices({"lab", "shop"}), ElementsAre(2, 2));
  EXPECT_THAT(Devices({"lab.a", "lab.b"}), ElementsAre(1, 1));
}

TEST_F(TenantOrderTest, PriorityOrdersATenantsOwnJobsOnly) {
  Use({.order = Order::kFairShare}, 1);
  SubmitAs("a");
  const JobId low = SubmitAs("a");
  const JobId high = SubmitAs("a", 100);
  const JobId other = SubmitAs("b");
  now += absl::Hours(1);
  EndOldest();
  EXPECT_TRUE(Runs(other));
  now += absl::Hours(3);
  End(other, Outcome::kSucceeded);
  EXPECT_TRUE(Runs(high));
  EXPECT_FALSE(Runs(low));
  EXPECT_THAT(WaitingReasons(state, 9)[low],
              HasSubstr("it is next of tenant 'a'"));
}

TEST_F(TenantOrderTest, LimitsHoldInEveryOrder) {
  for (Order order : {Order::kFirstCome, Order::kBackfill, Order::kFairShare,
                      Order::kLeastAttained}) {
    SCOPED_TRACE(std::string(ToString(order)));
    state = State();
    Use({.order = order, .tenants = {{"a", {.most = 2}}}}, 4);
    SubmitAs("a");
    SubmitAs("a.child");
    const JobId third = SubmitAs("a");
    const JobId other = SubmitAs("b");
    EXPECT_FALSE(Runs(third));
    EXPECT_TRUE(Runs(other));
    EXPECT_THAT(WaitingReasons(state, 9)[third],
                HasSubstr("tenant 'a' may use 2 devices at once and uses 2; it "
                          "needs 1"));
    EndOldest();
    EXPECT_TRUE(Runs(third));
  }
}

TEST_F(TenantOrderTest, JobsWaitBeyondTheBytesOfTheirTenant) {
  for (Order order : {Order::kFirstCome, Order::kBackfill, Order::kFairShare,
                      Order::kLeastAttained}) {
    SCOPED_TRACE(std::string(ToString(order)));
    state = State();
    Use({.order = order, .tenants = {{"a", {.most_device_bytes = 250}}}}, 5);
    SubmitAs("a");
    SubmitAs("a.child");
    const JobId third = SubmitAs("a");
    const JobId gang = SubmitAs("a", 0, 2);
    const JobId other = SubmitAs("b");
    EXPECT_FALSE(Runs(third));
    EXPECT_FALSE(Runs(gang));
    EXPECT_TRUE(Runs(other));
    EXPECT_THAT(WaitingReasons(state, 9)[third],
                HasSubstr("jobs of tenant 'a' may use 250 B of devices at once "
                          "and use 200 B; it needs 100 B"));
    EXPECT_THAT(WaitingReasons(state, 9)[gang],
                HasSubstr("it needs 100 B on each of 2 devices"));
    EndOldest();
    EXPECT_TRUE(Runs(third));
    EXPECT_FALSE(Runs(gang));
  }
}

TEST_F(TenantOrderTest, AGuaranteeIsTakenBackFromWhoBorrowedIt) {
  for (Order order : {Order::kFirstCome, Order::kBackfill, Order::kFairShare,
                      Order::kLeastAttained}) {
    SCOPED_TRACE(std::string(ToString(order)));
    state = State();
    Use({.order = order,
         .tenants = {{"a", {.guaranteed = 2}}, {"b", {.guaranteed = 2}}}},
        4);
    // No other tenant asks, so all four devices are lent.
    std::vector<JobId> borrowers;
    for (int i = 0; i < 4; ++i) borrowers.push_back(SubmitAs("b"));
    EXPECT_THAT(Devices({"b"}), ElementsAre(4));
    const JobId first(++last_job);
    const StepResult told =
        Send(JobSubmitted{.tenant = "a", .id = first, .bytes = 100});
    ASSERT_EQ(told.preemptions.size(), 1u);
    EXPECT_EQ(told.preemptions[0].reason, PreemptionReason::kGuarantee);
    const JobId second = SubmitAs("a");
    EXPECT_THAT(ToldToStop(), ElementsAre(borrowers[2], borrowers[3]));
    // Beyond its guarantee it waits like other tenants.
    const JobId third = SubmitAs("a");
    EXPECT_EQ(ToldToStop().size(), 2u);
    End(borrowers[2], Outcome::kStopped);
    End(borrowers[3], Outcome::kStopped);
    EXPECT_TRUE(Runs(first) && Runs(second));
    EXPECT_FALSE(Runs(third));
    EXPECT_EQ(job(borrowers[3]).state, JobState::kQueued);
    EXPECT_EQ(job(borrowers[3]).failures, 0u);
  }
}

TEST_F(TenantOrderTest, AGangIsReclaimedAsAWhole) {
  Use({.tenants = {{"a", {.guaranteed = 2}}}}, 4);
  const JobId gang = SubmitAs("b", 0, 4);
  const JobId job = SubmitAs("a", 0, 2);
  EXPECT_THAT(ToldToStop(), ElementsAre(gang));
  for (size_t rank = 0; rank < 4; ++rank) {
    EndRank(gang, rank, Outcome::kStopped);
  }
  EXPECT_TRUE(Runs(job));
}

// The gang holds both devices for itself, and one is reserved for the other
// job. Each would wait for the other for ever.
TEST_F(TenantOrderTest, WhoGotADeviceBackNeedNotWaitForWhoHoldsIt) {
  for (Order order : {Order::kFirstCome, Order::kPriority, Order::kFairShare}) {
    SCOPED_TRACE(std::string(ToString(order)));
    state = State();
    Use({.order = order, .tenants = {{"a", {.guaranteed = 1}}}}, 2);
    SubmitAs("b");
    const JobId gang = SubmitAs("b", 0, 2);
    for (uint32_t i = 0; i < kMaxPasses; ++i) {
      End(SubmitAs("b"), Outcome::kSucceeded);
    }
    const JobId last = SubmitAs("b");
    ASSERT_FALSE(Runs(last));
    ASSERT_EQ(job(gang).held_devices.size(), 2u);
    const JobId reclaims = SubmitAs("a");
    EXPECT_THAT(ToldToStop(), IsEmpty());
    EXPECT_TRUE(Runs(reclaims));
  }
}

TEST_F(TenantOrderTest, AReservationEndsWhereTheTenantMayUseNoMore) {
  Use({.tenants = {{"a", {.guaranteed = 1}}, {"a.x", {.most = 1}}}}, 2);
  const JobId first = SubmitAs("b");
  const JobId second = SubmitAs("b");
  const JobId reclaims = SubmitAs("a.x");
  ASSERT_EQ(ToldToStop().size(), 1u);
  const JobId stopped = ToldToStop().front();
  const JobId stays = stopped == first ? second : first;
  const JobId urgent = SubmitAs("a.x", 5);
  End(stays, Outcome::kSucceeded);
  EXPECT_TRUE(Runs(urgent));
  End(stopped, Outcome::kStopped);
  EXPECT_FALSE(Runs(reclaims));
  EXPECT_TRUE(Runs(stopped));
}

TEST_F(TenantOrderTest, WithoutGuaranteesNobodyGivesWay) {
  Use({.order = Order::kFairShare, .tenants = {{"a", {.weight = 100}}}}, 1);
  SubmitAs("b");
  now += absl::Hours(5);
  SubmitAs("a");
  EXPECT_THAT(ToldToStop(), IsEmpty());
}

}  // namespace
}  // namespace gpupool::scheduler
