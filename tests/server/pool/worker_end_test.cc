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

TEST(WasKilledFromOutsideTest, IsASigkillThatTheServerDidNotSend) {
  const auto lost = [](const std::string& how) {
    return absl::UnavailableError("it has ended (process 7: " + how + ")");
  };
  EXPECT_TRUE(WasKilledFromOutside(lost("killed by signal 9")));
  EXPECT_FALSE(WasKilledFromOutside(
      lost("killed by signal 9" + std::string(kByServer))));
  EXPECT_FALSE(WasKilledFromOutside(lost("killed by signal 6")));
  EXPECT_FALSE(WasKilledFromOutside(absl::UnavailableError("no answer")));
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

WorkReading Work(WorkPhase phase, seconds age, seconds mean) {
  WorkReading work;
  work.busy = true;
  work.phase = phase;
  work.age = age;
  work.mean = mean;
  return work;
}

TEST(HangTextTest, KnownWorkMayTakeTheLimitOrTwentyTimesItsMean) {
  const absl::Duration limit = absl::Seconds(60);
  for (WorkPhase phase : {WorkPhase::kStep, WorkPhase::kInfer}) {
    EXPECT_FALSE(HangText(Work(phase, seconds(60), seconds(1)), limit));
    EXPECT_TRUE(HangText(Work(phase, seconds(61), seconds(1)), limit));
    EXPECT_FALSE(HangText(Work(phase, seconds(200), seconds(10)), limit));
    EXPECT_TRUE(HangText(Work(phase, seconds(201), seconds(10)), limit));
  }
}

// Without this a job whose steps take longer than the limit never gets past its
// first step.
TEST(HangTextTest, WorkWithoutAMeanMayTakeThirtyTimesTheLimit) {
  const absl::Duration limit = absl::Seconds(60);
  for (WorkPhase phase :
       {WorkPhase::kStep, WorkPhase::kGroupStep, WorkPhase::kOther}) {
    EXPECT_FALSE(HangText(Work(phase, seconds(1800), seconds(0)), limit));
    EXPECT_TRUE(HangText(Work(phase, seconds(1801), seconds(0)), limit));
  }
}

TEST(HangTextTest, AFirstBatchMayTakeTheLimitAsOthers) {
  const absl::Duration limit = absl::Seconds(60);
  EXPECT_FALSE(
      HangText(Work(WorkPhase::kInfer, seconds(60), seconds(0)), limit));
  EXPECT_TRUE(
      HangText(Work(WorkPhase::kInfer, seconds(61), seconds(0)), limit));
}

TEST(HangTextTest, NamesTheWorkTheLimitAndTheRemedy) {
  EXPECT_EQ(HangText(Work(WorkPhase::kStep, seconds(90), seconds(1)),
                     absl::Seconds(60)),
            "the worker hangs: a training step has taken 1m30s, the limit is "
            "1m (--hang-timeout); it is killed. If such work may take so "
            "long, raise --hang-timeout or lower the batch size");
}

}  // namespace
}  // namespace gpupool::server
