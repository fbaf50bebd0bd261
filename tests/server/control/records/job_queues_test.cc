#include "server/control/records/job_queues.h"

#include <gmock/gmock.h>

#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/job.pb.h"
#include "scheduler/state/state.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

scheduler::QueuePolicy Policy() {
  return {
      .queues = {{.name = "big", .rank = 3, .devices = {"cuda"}, .most = 2},
                 {.name = "shop", .preempts = true, .tenants = {"a", "b.c"}}}};
}

v1::JobSpec Spec(const std::string& queue, const std::string& tenant) {
  v1::JobSpec spec;
  spec.set_queue(queue);
  spec.set_tenant(tenant);
  return spec;
}

TEST(JobQueuesTest, AnUnknownQueueIsRefusedWithThoseThereAre) {
  const scheduler::Queues queues(Policy());
  EXPECT_TRUE(CheckQueue(queues, Spec("", "x")).ok());
  EXPECT_TRUE(CheckQueue(queues, Spec("big", "x")).ok());
  const absl::Status status = CheckQueue(queues, Spec("huge", "x"));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no queue \"huge\"; there is big, shop and default"));
}

TEST(JobQueuesTest, OnlyTheTenantsOfAQueueMaySubmitToIt) {
  const scheduler::Queues queues(Policy());
  for (const char* tenant : {"a", "a.x", "b.c", "b.c.d"}) {
    EXPECT_TRUE(CheckQueue(queues, Spec("shop", tenant)).ok()) << tenant;
  }
  for (const char* tenant : {"b", "ab", "default"}) {
    const absl::Status status = CheckQueue(queues, Spec("shop", tenant));
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << tenant;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("takes jobs of a, b.c"));
  }
}

TEST(JobQueuesTest, MoreDevicesThanItsJobsMayHoldAreRefused) {
  const scheduler::Queues queues(Policy());
  v1::JobSpec spec = Spec("big", "x");
  spec.set_devices(2);
  EXPECT_TRUE(CheckQueue(queues, spec).ok());
  spec.set_devices(3);
  EXPECT_THAT(std::string(CheckQueue(queues, spec).message()),
              HasSubstr("needs 3 devices, jobs in queue \"big\" may use 2"));
}

TEST(JobQueuesTest, TellsWhatIsConfigured) {
  const scheduler::Queues queues(Policy());
  const v1::Queue big = ToProto(queues.at(0));
  EXPECT_EQ(big.name(), "big");
  EXPECT_EQ(big.order(), "fifo");
  EXPECT_EQ(big.rank(), 3);
  EXPECT_EQ(big.most_devices(), 2u);
  EXPECT_THAT(big.devices(), ElementsAre("cuda"));
  EXPECT_TRUE(ToProto(queues.at(1)).preempts());
  EXPECT_FALSE(ToProto(queues.at(2)).has_most_devices());
}

TEST(JobQueuesTest, WarnsOfQueuesWithoutDevicesAndOfJobsWithoutQueues) {
  scheduler::State state;
  state.SetPolicy(Policy());
  state.AddDevice("cpu:0", "cpu", 100);
  for (uint64_t id : {1, 2}) {
    state.RestoreJob({{.queue_name = "former", .id = scheduler::JobId(id)}});
  }
  EXPECT_THAT(QueueWarnings(state),
              ElementsAre("queue 'big' may use cuda, none of which exists "
                          "here: its jobs will not start",
                          "queue 'former' is no longer configured: 2 jobs of "
                          "it wait in 'default'"));
}

}  // namespace
}  // namespace gpupool::server
