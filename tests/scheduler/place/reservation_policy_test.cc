#include "scheduler/place/reservation_policy.h"

#include <gmock/gmock.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReservationPolicyTest : public SchedulerTest {
 protected:
  ReservationNeed Need(uint32_t devices, std::vector<DeviceId> named = {}) {
    return {.tenant = "lab",
            .devices = devices,
            .named = std::move(named),
            .start = now + absl::Hours(1),
            .end = now + absl::Hours(2)};
  }
  void Reserve(uint64_t id, std::vector<DeviceId> devices, int from_hour,
               int to_hour) {
    Send(ReservationMade{{.id = ReservationId(id),
                          .name = absl::StrCat("r", id),
                          .tenant = "shop",
                          .devices = std::move(devices),
                          .start = now + absl::Hours(from_hour),
                          .end = now + absl::Hours(to_hour)}});
  }
  std::vector<DeviceId> Choose(const ReservationNeed& need) {
    auto chosen = ChooseReserved(state, need);
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    return chosen.ok() ? *chosen : std::vector<DeviceId>();
  }
  std::string Refusal(const ReservationNeed& need, absl::StatusCode code) {
    const absl::Status status = ChooseReserved(state, need).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }
};

TEST_F(ReservationPolicyTest, TakesTheDevicesThatAreNamed) {
  AddNodes(1, 4);
  EXPECT_THAT(Choose(Need(0, {DeviceId(3), DeviceId(1)})),
              ElementsAre(DeviceId(1), DeviceId(3)));
  EXPECT_THAT(Choose(Need(3, {DeviceId(3)})),
              ElementsAre(DeviceId(0), DeviceId(1), DeviceId(3)));
}

TEST_F(ReservationPolicyTest, WhereOthersRunComesLast) {
  AddNodes(1, 3);
  for (const char* tenant : {"lab", "shop"}) {
    const JobId id(++last_job);
    Send(JobSubmitted{.tenant = tenant, .id = id, .bytes = 60});
  }
  ASSERT_EQ(DeviceOf(JobId(2)), DeviceId(1));
  // The tenant's own job on cuda:0 would stay.
  EXPECT_THAT(Choose(Need(2)), ElementsAre(DeviceId(0), DeviceId(2)));
}

TEST_F(ReservationPolicyTest, DrainedDevicesComeLast) {
  AddNodes(1, 2);
  Send(DeviceDrainSet{DeviceId(0), DeviceDrain{}});
  EXPECT_THAT(Choose(Need(1)), ElementsAre(DeviceId(1)));
  EXPECT_THAT(Choose(Need(2)), ElementsAre(DeviceId(0), DeviceId(1)));
}

TEST_F(ReservationPolicyTest, OneMachineIsBetterThanTwo) {
  AddNodes(2, 2);
  Reserve(1, {DeviceId(0)}, 0, 3);
  EXPECT_THAT(Choose(Need(2)), ElementsAre(DeviceId(2), DeviceId(3)));
  EXPECT_THAT(Choose(Need(3)),
              ElementsAre(DeviceId(1), DeviceId(2), DeviceId(3)));
}

TEST_F(ReservationPolicyTest, OfEquallyBusyDevicesTheConnectedOnesAreTaken) {
  for (int i = 0; i < 4; ++i) {
    state.AddDevice(absl::StrCat("cuda:", i), "cuda", 100);
  }
  state.Connect(DeviceId(1), DeviceId(3), Link::kNvlink);
  for (int i = 0; i < 4; ++i) Send(WorkerReady{.device = DeviceId(i)});
  EXPECT_THAT(Choose(Need(2)), ElementsAre(DeviceId(1), DeviceId(3)));
}

TEST_F(ReservationPolicyTest, AnotherTimeIsNotInTheWay) {
  AddNodes(1, 1);
  Reserve(1, {DeviceId(0)}, 0, 1);  // ends as the other one begins
  Reserve(2, {DeviceId(0)}, 2, 3);
  EXPECT_THAT(Choose(Need(1)), ElementsAre(DeviceId(0)));
}

TEST_F(ReservationPolicyTest, SaysWhoHasADeviceAndWhatIsFreeInstead) {
  AddNodes(1, 3);
  Reserve(1, {DeviceId(0)}, 0, 2);
  EXPECT_THAT(
      Refusal(Need(0, {DeviceId(0)}), absl::StatusCode::kFailedPrecondition),
      AllOf(HasSubstr("cuda:0 is reserved as 'r1' for shop"),
            HasSubstr("until 1970-01-01T02:00:00"),
            HasSubstr("cuda:1, cuda:2; take those")));
  EXPECT_THAT(Refusal(Need(3), absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("3 devices of one kind are not free"),
                    HasSubstr("free are cuda:1, cuda:2"), HasSubstr("'r1'")));
}

TEST_F(ReservationPolicyTest, RefusesWhatIsNotThere) {
  AddNodes(1, 2);
  AddReadyDevice("cpu:0", 100);
  EXPECT_THAT(Refusal(Need(3), absl::StatusCode::kInvalidArgument),
              HasSubstr("devices is 3; of one kind there are 1 cpu and 2 "
                        "cuda; reserve fewer"));
  EXPECT_THAT(Refusal(Need(0), absl::StatusCode::kInvalidArgument),
              HasSubstr("how many devices"));
  EXPECT_THAT(Refusal(Need(1, {DeviceId(0), DeviceId(1)}),
                      absl::StatusCode::kInvalidArgument),
              HasSubstr("devices is 1, but 2 are named"));
  ReservationNeed cpus = Need(2);
  cpus.device_kind = "cpu";
  EXPECT_THAT(Refusal(cpus, absl::StatusCode::kInvalidArgument),
              HasSubstr("there are 1 cpu;"));
}

}  // namespace
}  // namespace gpupool::scheduler
