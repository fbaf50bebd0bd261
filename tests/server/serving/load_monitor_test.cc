#include "server/serving/load_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/server/serving/fake_worker.h"
#include "tests/server/serving/served_model.h"
#include "tests/server/serving/test_call.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class LoadMonitorTest : public ::testing::Test {
 protected:
  VersionHandle Serve(uint64_t id) {
    VersionHandle version = MakeServedVersion("digits", 1, id, &timer_);
    version->batcher().SetRing(worker_.ring());
    return version;
  }
  // Measures once a second of virtual time.
  void LookFor(const std::vector<VersionHandle>& versions, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ += absl::Seconds(1);
      monitor_.Look(versions, now_);
    }
  }

  WakeTimer timer_;
  FakeWorker worker_;
  absl::Time now_ = absl::Now();
  std::vector<std::pair<uint64_t, bool>> told_;
  LoadMonitor monitor_{{.target = absl::Milliseconds(100)},
                       [this](uint64_t version, bool under_load) {
                         told_.emplace_back(version, under_load);
                       }};
};

TEST_F(LoadMonitorTest, AnIdleVersionIsNotUnderLoad) {
  LookFor({Serve(7)}, 60);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(LoadMonitorTest, ACallThatWaitsForLongIsLoadWhetherInABatchOrNot) {
  const VersionHandle version = Serve(7);
  worker_.Pause();
  TestCall call(1, {1, 2});
  version->batcher().Enqueue(&call);
  EXPECT_LE(version->batcher().oldest_call(), absl::Now());
  LookFor({version}, 10);
  EXPECT_THAT(told_, ElementsAre(Pair(7, true)));
  worker_.Resume();
  ASSERT_TRUE(call.WaitUntilDone());
  EXPECT_EQ(version->batcher().oldest_call(), absl::InfiniteFuture());
  LookFor({version}, 40);
  EXPECT_THAT(told_, ElementsAre(Pair(7, true), Pair(7, false)));
}

TEST_F(LoadMonitorTest, WaitingForALostWorkerIsNoLoad) {
  const VersionHandle version = Serve(7);
  LookFor({version}, 1);
  version->batcher().SetRing(nullptr);
  TestCall call(1, {1, 2});
  version->batcher().Enqueue(&call);
  LookFor({version}, 60);
  version->batcher().SetRing(worker_.ring());
  ASSERT_TRUE(call.WaitUntilDone());
  LookFor({version}, 60);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(LoadMonitorTest, AVersionThatIsServedNoMoreIsForgotten) {
  const VersionHandle version = Serve(7);
  worker_.Pause();
  TestCall call(1, {1, 2});
  version->batcher().Enqueue(&call);
  LookFor({version}, 10);
  LookFor({}, 100);
  EXPECT_THAT(told_, ElementsAre(Pair(7, true)));
  LookFor({version}, 10);
  EXPECT_THAT(told_, ElementsAre(Pair(7, true), Pair(7, true)));
  worker_.Resume();
  ASSERT_TRUE(call.WaitUntilDone());
}

}  // namespace
}  // namespace gpupool::server
