#include "server/pool/worker_end.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using std::chrono::seconds;

WorkerEnd End(const std::string& how, WorkPhase phase) {
  WorkerEnd end;
  end.reason = absl::UnavailableError("it has ended");
  end.how = how;
  end.work.busy = true;
  end.work.phase = phase;
  end.work.age = seconds(2);
  end.work.owner.version_id = 7;
  return end;
}

TEST(SuspectOfTest, IsTheOwnerOfTheWork) {
  EXPECT_EQ(SuspectOf(End("killed by signal 6", WorkPhase::kInfer)).version_id,
            7u);
  EXPECT_EQ(SuspectOf(End("killed by signal 9", WorkPhase::kOther)).version_id,
            7u);
}

TEST(SuspectOfTest, IsNobodyWhenSomebodyElseKilledTheWorker) {
  WorkerEnd end = End("killed by signal 9", WorkPhase::kInfer);
  EXPECT_EQ(SuspectOf(end).version_id, 0u);
  end.reason = absl::DeadlineExceededError("hangs");
  EXPECT_EQ(SuspectOf(end).version_id, 7u);
}

TEST(WasEndedByRequestTest, WhenItCrashedOrHungInItsTime) {
  WorkerEnd end = End("killed by signal 8", WorkPhase::kOther);
  EXPECT_TRUE(WasEndedByRequest(end, seconds(3)));
  // The work had begun before the request was sent.
  EXPECT_FALSE(WasEndedByRequest(end, seconds(1)));
  end.how = "killed by signal 9";
  EXPECT_FALSE(WasEndedByRequest(end, seconds(3)));
  end.reason = absl::DeadlineExceededError("hangs");
  EXPECT_TRUE(WasEndedByRequest(end, seconds(3)));
  end.work.busy = false;
  EXPECT_FALSE(WasEndedByRequest(end, seconds(3)));
}

}  // namespace
}  // namespace gpupool::server
