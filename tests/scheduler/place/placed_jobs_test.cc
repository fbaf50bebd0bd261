#include "scheduler/place/placed_jobs.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PlacedJobsTest : public SchedulerTest {
 protected:
  std::vector<JobId> On(DeviceId device) {
    const PlacedJobs placed(state);
    std::vector<JobId> ids;
    for (const Job* job : placed.On(device)) {
      EXPECT_EQ(job, state.FindJob(job->id));
      ids.push_back(job->id);
    }
    return ids;
  }
};

TEST_F(PlacedJobsTest, JobsAreOnTheirDevicesByRisingId) {
  AddNodes(1, 4);
  const JobId gang = SubmitGang(60, 2);
  const std::vector<DeviceId> places = {job(gang).ranks[0].device,
                                        job(gang).ranks[1].device};
  const JobId third = SubmitGang(60, 1);
  const DeviceId third_place = job(third).ranks[0].device;
  const JobId fourth = SubmitGang(60, 1);
  const DeviceId fourth_place = job(fourth).ranks[0].device;
  const JobId beside = SubmitGang(30, 1);
  const DeviceId shared = job(beside).ranks[0].device;
  for (const auto& [device, jobs] : state.devices()) {
    const std::vector<JobId> expected(jobs.jobs.begin(), jobs.jobs.end());
    EXPECT_EQ(On(device), expected);
  }
  for (DeviceId place : places) EXPECT_EQ(On(place).front(), gang);
  EXPECT_EQ(On(third_place).front(), third);
  EXPECT_EQ(On(fourth_place).front(), fourth);
  EXPECT_EQ(On(shared).back(), beside);
  EXPECT_EQ(On(shared).size(), 2u);
  EXPECT_EQ(PlacedJobs(state).size(), 5u);
}

TEST_F(PlacedJobsTest, ADeviceWithoutJobsHasNone) {
  AddNodes(1, 2);
  const JobId only = SubmitGang(60, 1);
  const DeviceId place = job(only).ranks[0].device;
  EXPECT_THAT(On(place), ElementsAre(only));
  EXPECT_THAT(On(DeviceId(1 - place.value())), IsEmpty());
}

}  // namespace
}  // namespace gpupool::scheduler
