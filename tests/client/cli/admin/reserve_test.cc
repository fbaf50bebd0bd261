// gpupool reserve.
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ReserveTest = CommandTest;

TEST_F(ReserveTest, WhatIsAskedForIsSent) {
  EXPECT_EQ(Run({"reserve",      "create",
                 "--tenant",     "lab",
                 "--devices",    "3",
                 "--device",     "cpu:1",
                 "--device",     "cpu:0",
                 "--kind",       "cpu",
                 "--from",       "2026-11-24T08:00:00Z",
                 "--for",        "1h30m0.5s",
                 "--name",       "night",
                 "--request-id", "one"}),
            0);
  absl::MutexLock lock(&server_.state.mutex);
  const v1::CreateReservationRequest& request = server_.state.reserved;
  EXPECT_EQ(request.request_id(), "one");
  EXPECT_EQ(request.name(), "night");
  EXPECT_EQ(request.tenant(), "lab");
  EXPECT_EQ(request.device_count(), 3u);
  EXPECT_THAT(request.devices(), ElementsAre("cpu:1", "cpu:0"));
  EXPECT_EQ(request.device_kind(), "cpu");
  EXPECT_EQ(request.start_time().seconds(), 1795507200);
  EXPECT_EQ(request.duration().seconds(), 5400);
  EXPECT_EQ(request.duration().nanos(), 500000000);
}

TEST_F(ReserveTest, ItBeginsNowUnlessSaidOtherwise) {
  EXPECT_EQ(Run({"reserve", "create", "--tenant", "lab", "--devices", "1",
                 "--for", "2d"}),
            0);
  EXPECT_THAT(out(), HasSubstr("reservation 3 (night) is pending: cpu:0, cpu:1 "
                               "for lab from "));
  {
    absl::MutexLock lock(&server_.state.mutex);
    EXPECT_FALSE(server_.state.reserved.has_start_time());
    EXPECT_EQ(server_.state.reserved.duration().seconds(), 2 * 86400);
    EXPECT_EQ(server_.state.reserved.request_id().size(), 32u);
  }
  const int64_t before = absl::ToUnixSeconds(absl::Now());
  EXPECT_EQ(Run({"reserve", "create", "--tenant", "lab", "--devices", "1",
                 "--for", "10", "--from", "+2h"}),
            0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_GE(server_.state.reserved.start_time().seconds(), before + 7200);
}

TEST_F(ReserveTest, TimesThatAreNoneAreRefused) {
  EXPECT_EQ(Run({"reserve", "create", "--tenant", "lab", "--devices", "1",
                 "--for", "0"}),
            2);
  EXPECT_THAT(err(), HasSubstr("--for: the duration '0' must be above 0"));
  EXPECT_EQ(Run({"reserve", "create", "--tenant", "lab", "--devices", "1",
                 "--for", "1h", "--from", "tomorrow"}),
            2);
  EXPECT_THAT(err(), HasSubstr("--from is"));
  EXPECT_EQ(Run({"reserve", "create", "--devices", "1", "--for", "1h"}), 2);
  EXPECT_THAT(err(), HasSubstr("--tenant is required"));
}

TEST_F(ReserveTest, TheListIsATableOrJson) {
  EXPECT_EQ(Run({"reserve", "list"}), 0);
  EXPECT_THAT(out(), HasSubstr("ID\tNAME\tTENANT\tSTATE\tFROM\tUNTIL\tDEVICES\n"
                               "3\tnight\tlab\tpending\t"));
  EXPECT_THAT(out(), HasSubstr("\tcpu:0,cpu:1\n"));
  EXPECT_EQ(Run({"reserve", "list", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["reservations"][0]["name"], "night");
}

TEST_F(ReserveTest, OneIsCancelledByItsNameOrItsId) {
  EXPECT_EQ(Run({"reserve", "cancel", "night"}), 0);
  EXPECT_THAT(out(), HasSubstr("is cancelled"));
  {
    absl::MutexLock lock(&server_.state.mutex);
    EXPECT_EQ(server_.state.unreserved.name(), "night");
  }
  EXPECT_EQ(Run({"reserve", "cancel", "3"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.unreserved.id(), 3u);
}

}  // namespace
}  // namespace gpupool::client
