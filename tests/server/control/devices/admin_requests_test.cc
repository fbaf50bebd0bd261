#include "server/control/devices/admin_requests.h"

#include "gpupool/v1/admin.pb.h"
#include "server/control/devices/device_board.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

class AdminRequestsTest : public ControlTest {
 protected:
  absl::StatusOr<v1::DrainResponse> Drain(bool stop) {
    Answer<v1::DrainResponse> answer;
    DrainServer(control(), stop, answer.callback());
    return answer.Wait();
  }
};

TEST_F(AdminRequestsTest, ADrainWithoutStopLetsJobsRun) {
  Hello("cpu:0");
  AddDataset("digits");
  SubmitAndStart(Request("r1"));
  const auto drained = Drain(/*stop=*/false);
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_EQ(drained->running_jobs(), 1u);
  EXPECT_TRUE(control().board->draining());
  EXPECT_EQ(Submit(Request("r2")).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(AdminRequestsTest, ADrainIsUnavailableAfterTheStop) {
  loop->Stop();
  EXPECT_EQ(Drain(/*stop=*/true).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpupool::server
