#include "server/pool/worker_link.h"

#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <future>
#include <set>
#include <string>

#include "tests/server/pool/pool_fixture.h"

namespace gpupool::server {
namespace {

using testing_pool::Eventually;
using worker::v1::ToWorker;

class WorkerLinkTest : public testing_pool::PoolFixture {
 protected:
  void DetachPool() {
    pool_->Shutdown(WorkerPool::ShutdownMode::kDetach);
    pool_.reset();
  }
};

TEST_F(WorkerLinkTest, SecondPoolAdoptsTheLivingWorkerWithWhatItRuns) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 1000000).ok());
  ASSERT_TRUE(LoadVersion(5).ok());
  ASSERT_TRUE(WaitProgress(7));
  const auto before = observer_->ready("cpu:0")[0];
  const auto old_ring = pool_->ring("cpu:0");
  DetachPool();
  EXPECT_TRUE(old_ring->failed());

  StartReadyPool(Options());
  const auto after = observer_->ready("cpu:0")[0];
  EXPECT_EQ(after.pid(), before.pid());
  EXPECT_EQ(after.worker_boot_id(), before.worker_boot_id());
  ASSERT_EQ(after.running_size(), 1);
  EXPECT_EQ(after.running(0).job_id(), 7u);
  EXPECT_GT(after.running(0).step(), 0u);
  ASSERT_EQ(after.loaded_version_ids_size(), 1);
  EXPECT_EQ(after.loaded_version_ids(0), 5u);
  EXPECT_EQ(pool_->status("cpu:0").restarts, 0u);

  // The new ring serves while the job continues.
  const auto ring = pool_->ring("cpu:0");
  Slot slot = *ring->Acquire();
  testing_pool::FillRow(&slot, 5);
  std::promise<absl::Status> answer;
  ring->Submit(std::move(slot),
               [&](absl::Status status, Slot) { answer.set_value(status); });
  EXPECT_TRUE(answer.get_future().get().ok());
}

// By default, OpenMP would let idle threads occupy whole cores for
// milliseconds.
TEST_F(WorkerLinkTest, TheThreadsOfAWorkerLookBrieflyForWorkAndThenSleep) {
  StartReadyPool(Options());
  std::ifstream file(absl::StrCat("/proc/", pid("cpu:0"), "/environ"));
  std::set<std::string> variables;
  for (std::string line; std::getline(file, line, '\0');) {
    variables.insert(line);
  }
  EXPECT_EQ(variables.count("OMP_WAIT_POLICY=passive"), 1u);
  EXPECT_EQ(variables.count("GOMP_SPINCOUNT=4000"), 1u);
}

TEST_F(WorkerLinkTest, AnIdleWorkerOfOtherSettingsIsReplaced) {
  StartReadyPool(Options());
  const pid_t first = pid("cpu:0");
  DetachPool();
  PoolOptions options = Options();
  options.devices[0].limit_bytes *= 2;
  StartReadyPool(options);
  EXPECT_NE(pid("cpu:0"), first);
  EXPECT_EQ(observer_->ready("cpu:0")[0].info().limit_bytes(),
            options.devices[0].limit_bytes);
  EXPECT_NE(observer_->lost("cpu:0")[0].message().find("2097152"),
            std::string::npos)
      << observer_->lost("cpu:0")[0];
}

TEST_F(WorkerLinkTest, ABusyWorkerOfOtherSettingsIsKept) {
  StartReadyPool(Options());
  ASSERT_TRUE(LoadVersion(5).ok());
  const pid_t first = pid("cpu:0");
  DetachPool();
  PoolOptions options = Options();
  options.devices[0].threads = 2;
  StartReadyPool(options);
  EXPECT_EQ(pid("cpu:0"), first);
  EXPECT_TRUE(observer_->lost("cpu:0").empty());
}

TEST_F(WorkerLinkTest, ReportsMadeWhileNoDaemonListensAreSentAfterwards) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 300).ok());
  DetachPool();
  ASSERT_TRUE(WaitEndSpooled("cpu:0", 7));

  StartReadyPool(Options());
  // This daemon thinks that the job still runs. It gets the end right after.
  ASSERT_EQ(observer_->ready("cpu:0")[0].running_size(), 1);
  ASSERT_TRUE(WaitEnded(7));
  const uint64_t last = observer_->reports().back().sequence();
  pool_->AcknowledgeReports("cpu:0", last);
  ToWorker request;
  request.mutable_get_memory();
  ASSERT_TRUE(Ask("cpu:0", request).ok());  // comes after the acknowledgement
  DetachPool();

  StartReadyPool(Options());
  EXPECT_EQ(observer_->ready("cpu:0")[0].running_size(), 0);
  ASSERT_TRUE(Ask("cpu:0", request).ok());
  EXPECT_TRUE(observer_->reports().empty());
}

TEST_F(WorkerLinkTest, ReportsUpToTheDaemonsDiskAreNotSentAgain) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 5).ok());
  ASSERT_TRUE(WaitEnded(7));
  const auto reports = observer_->reports();
  DetachPool();
  PoolOptions options = Options();
  options.devices[0].last_report_sequence = reports[1].sequence();
  StartReadyPool(options);
  ASSERT_TRUE(WaitEnded(7));
  EXPECT_EQ(observer_->reports().size(), reports.size() - 2);
}

TEST_F(WorkerLinkTest, KilledWorkerIsNoticedAndReplaced) {
  StartReadyPool(Options());
  const pid_t first = pid("cpu:0");
  const std::string first_boot = pool_->status("cpu:0").boot_id;
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] { return !observer_->lost("cpu:0").empty(); }));
  EXPECT_TRUE(WasKilledFromOutside(observer_->lost("cpu:0")[0]));
  EXPECT_NE(observer_->lost("cpu:0")[0].message().find("signal 9"),
            std::string::npos)
      << observer_->lost("cpu:0")[0];
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  EXPECT_NE(pid("cpu:0"), first);
  EXPECT_NE(pool_->status("cpu:0").boot_id, first_boot);
  EXPECT_EQ(pool_->status("cpu:0").restarts, 1u);
  EXPECT_EQ(observer_->log(), (std::vector<std::string>{
                                  "ready cpu:0", "lost cpu:0", "ready cpu:0"}));
}

TEST_F(WorkerLinkTest, SaysWhoseWorkEndedTheWorker) {
  StartReadyPool(Options());
  ASSERT_EQ(::kill(pid("cpu:0"), SIGKILL), 0);  // it does nothing
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  EXPECT_EQ(observer_->lost_work("cpu:0").version_id, 0u);
  EXPECT_EQ(observer_->lost_work("cpu:0").job_id, 0u);

  ToWorker request;
  request.mutable_load_version()->set_version_id(5);
  request.mutable_load_version()->set_name("abort/1");
  EXPECT_EQ(Ask("cpu:0", request).status().code(),
            absl::StatusCode::kUnavailable);
  ASSERT_TRUE(WaitReady("cpu:0", 3));
  EXPECT_EQ(observer_->lost_work("cpu:0").version_id, 5u);
  EXPECT_NE(observer_->lost("cpu:0")[1].message().find("signal 6"),
            std::string::npos)
      << observer_->lost("cpu:0")[1];

  ASSERT_TRUE(StartJob(7, 5, "cpu:0", "abort-at-2").ok());
  ASSERT_TRUE(WaitReady("cpu:0", 4));
  EXPECT_EQ(observer_->lost_work("cpu:0").version_id, 0u);
  EXPECT_EQ(observer_->lost_work("cpu:0").job_id, 7u);
}

TEST_F(WorkerLinkTest, APlannerThatEndsLateIsExplained) {
  PoolOptions options = Options();
  options.devices[0].name = "meta";
  StartReadyPool(options);
  ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("late-abort-plan");
  const absl::Status refused = Ask("meta", request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_NE(refused.message().find("killed by signal 6"), std::string::npos)
      << refused;
}

TEST_F(WorkerLinkTest, ARequestThatEndsThePlannerIsRefused) {
  PoolOptions options = Options();
  options.devices[0].name = "meta";
  StartReadyPool(options);
  ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("abort-plan");
  const absl::Status refused = Ask("meta", request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("ends the planner (killed by signal 6"),
            std::string::npos)
      << refused;
  // The next request waits for the next planner.
  request.mutable_plan_training()->mutable_spec()->set_name("");
  EXPECT_TRUE(Ask("meta", request).ok());
  ASSERT_TRUE(WaitReady("meta", 2));
}

TEST_F(WorkerLinkTest, ARequestThatEndsPlannersIsRefusedBeforeTheThird) {
  PoolOptions options = Options();
  options.devices[0].name = "meta";
  StartReadyPool(options);
  ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("abort-plan");
  for (uint32_t kills = 1; kills <= kKillsUntilRefused; ++kills) {
    EXPECT_NE(Ask("meta", request).status().message().find("ends the planner"),
              std::string::npos);
    ASSERT_TRUE(WaitReady("meta", kills + 1));
  }
  const absl::Status refused = Ask("meta", request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_NE(refused.message().find("has ended the planner 2 times"),
            std::string::npos)
      << refused;
  EXPECT_EQ(observer_->lost("meta").size(), kKillsUntilRefused);
  // Others are planned.
  request.mutable_plan_training()->mutable_spec()->set_name("");
  EXPECT_TRUE(Ask("meta", request).ok());
}

// Otherwise one model that takes minutes to plan would keep everybody from
// submitting jobs.
TEST_F(WorkerLinkTest, APlannerWhoseWorkNobodyAwaitsIsReplaced) {
  PoolOptions options = Options();
  options.devices[0].name = "meta";
  options.hang_timeout = absl::Hours(1);
  StartReadyPool(options);
  ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("after /nothing");
  const absl::Status late = Ask("meta", request, absl::Seconds(1)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_NE(late.message().find("the planner did not answer within 1s"),
            std::string::npos)
      << late;
  ASSERT_TRUE(WaitReady("meta", 2));
  EXPECT_NE(observer_->lost("meta")[0].message().find("nobody waits"),
            std::string::npos)
      << observer_->lost("meta")[0];
  request.mutable_plan_training()->mutable_spec()->set_name("");
  EXPECT_TRUE(Ask("meta", request).ok());
}

TEST_F(WorkerLinkTest, APlannerWhoseWorkIsAwaitedIsKept) {
  PoolOptions options = Options();
  options.devices[0].name = "meta";
  options.hang_timeout = absl::Hours(1);
  StartReadyPool(options);
  const std::string gate = state_dir_ + "/gate";
  ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("after " + gate);
  std::promise<absl::Status> answer;
  pool_->Send("meta", request, kPatience,
              [&](const absl::StatusOr<worker::v1::FromWorker>& reply) {
                answer.set_value(reply.status());
              });
  const int heartbeats = observer_->heartbeat_count();
  ASSERT_TRUE(Eventually(
      [&] { return observer_->heartbeat_count() > heartbeats + 3; }));
  std::ofstream(gate).flush();
  EXPECT_TRUE(answer.get_future().get().ok());
  EXPECT_TRUE(observer_->lost("meta").empty());
}

TEST_F(WorkerLinkTest, AnErrorThatIsNoTextEndsNoWorker) {
  StartReadyPool(Options());
  ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("no-text");
  EXPECT_EQ(Ask("cpu:0", request).status(),
            absl::InvalidArgumentError("node \\xff: unknown"));
  EXPECT_TRUE(observer_->lost("cpu:0").empty());
}

TEST_F(WorkerLinkTest, RequestsAndSlotsOutstandingAtACrashAreUnavailable) {
  StartReadyPool(Options());
  ASSERT_TRUE(LoadVersion(5).ok());
  ASSERT_EQ(::kill(pid("cpu:0"), SIGSTOP), 0);
  const auto ring = pool_->ring("cpu:0");
  std::promise<absl::Status> slot_answer;
  std::promise<absl::Status> reply;
  Slot slot = *ring->Acquire();
  testing_pool::FillRow(&slot, 5);
  ring->Submit(std::move(slot), [&](absl::Status status, Slot) {
    slot_answer.set_value(status);
  });
  ToWorker request;
  request.mutable_get_memory();
  pool_->Send("cpu:0", request, absl::Minutes(1),
              [&](auto result) { reply.set_value(result.status()); });
  ASSERT_EQ(::kill(pid("cpu:0"), SIGKILL), 0);
  EXPECT_EQ(slot_answer.get_future().get().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(reply.get_future().get().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  EXPECT_NE(pool_->ring("cpu:0"), ring);
}

TEST_F(WorkerLinkTest, WorkerThatHangsIsKilledAndReplaced) {
  PoolOptions options = Options();
  options.heartbeat_timeout = absl::Milliseconds(600);
  StartReadyPool(options);
  const pid_t first = pid("cpu:0");
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  EXPECT_NE(::kill(first, 0), 0);
  EXPECT_NE(observer_->lost("cpu:0")[0].message().find(kNoHeartbeat),
            std::string::npos);
  EXPECT_FALSE(WasKilledFromOutside(observer_->lost("cpu:0")[0]));
}

TEST_F(WorkerLinkTest, WorkerThatCannotStartIsTriedAgainLessAndLessOften) {
  PoolOptions options = Options();
  options.worker_binary = "/bin/false";
  options.backoff_min = absl::Milliseconds(20);
  options.backoff_max = absl::Milliseconds(80);
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  const absl::Time start = absl::Now();
  StartPool(options);
  ASSERT_TRUE(Eventually([&] { return observer_->lost("cpu:0").size() >= 5; }));
  // The waits between five tries: 20, 40, 80 and 80 ms.
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(220));
  std::string text;
  for (const std::string& line : log->last_formatted()) text += line;
  size_t at = 0;
  for (const char* wait : {"retry_in=20ms", "retry_in=40ms", "retry_in=80ms",
                           "retry_in=80ms", "retry_in=80ms"}) {
    at = text.find(wait, at);
    ASSERT_NE(at, std::string::npos) << wait << " is not in\n" << text;
    ++at;
  }
  EXPECT_NE(observer_->lost("cpu:0")[0].message().find("exit code 1"),
            std::string::npos)
      << observer_->lost("cpu:0")[0];
  EXPECT_EQ(pool_->ring("cpu:0"), nullptr);
  ToWorker request;
  request.mutable_get_memory();
  EXPECT_EQ(Ask("cpu:0", request).status().code(),
            absl::StatusCode::kUnavailable);
  pool_.reset();  // its thread logs
  spdlog::set_default_logger(before);
}

TEST_F(WorkerLinkTest, WorkerThatNeverAnswersIsGivenUpInTime) {
  PoolOptions options = Options();
  const std::string script = state_dir_ + "/silent";
  {
    std::ofstream file(script);
    file << "#!/bin/sh\nexec sleep 1000\n";
  }
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  options.worker_binary = script;
  options.start_timeout = absl::Milliseconds(100);
  StartPool(options);
  ASSERT_TRUE(Eventually([&] { return observer_->lost("cpu:0").size() >= 2; }));
  EXPECT_NE(observer_->lost("cpu:0")[0].message().find("did not answer"),
            std::string::npos);
}

TEST_F(WorkerLinkTest, UnacknowledgedReportsOutliveTheWorkerToo) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 3).ok());
  ASSERT_TRUE(WaitEnded(7));
  const auto first = observer_->reports();
  ASSERT_EQ(::kill(pid("cpu:0"), SIGKILL), 0);
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  // This daemon has seen them, so they are not forwarded again.
  ASSERT_TRUE(StartJob(8, 3).ok());
  ASSERT_TRUE(WaitEnded(8));
  for (size_t i = first.size(); i < observer_->reports().size(); ++i) {
    EXPECT_EQ(observer_->reports()[i].job_id(), 8u);
  }
  DetachPool();
  // The next daemon has not seen them.
  StartReadyPool(Options());
  ASSERT_TRUE(WaitEnded(8));
  EXPECT_EQ(observer_->reports()[0].job_id(), 7u);
}

TEST_F(WorkerLinkTest, AStepThatNeverEndsCostsTheWorkerItsLife) {
  PoolOptions options = Options();
  options.hang_timeout = absl::Milliseconds(200);
  StartReadyPool(options);
  ASSERT_TRUE(StartJob(7, 100, "cpu:0", "hang-at-3").ok());
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  const absl::Status lost = observer_->lost("cpu:0")[0];
  EXPECT_NE(lost.message().find("hangs: a training step"), std::string::npos)
      << lost;
  EXPECT_TRUE(absl::IsDeadlineExceeded(lost)) << lost;
}

TEST_F(WorkerLinkTest, WithoutALimitAStepMayTakeForEver) {
  PoolOptions options = Options();
  options.hang_timeout = absl::ZeroDuration();
  StartReadyPool(options);
  ASSERT_TRUE(StartJob(7, 100, "cpu:0", "hang-at-3").ok());
  ASSERT_TRUE(WaitProgress(7));
  const int heartbeats = observer_->heartbeat_count();
  ASSERT_TRUE(Eventually(
      [&] { return observer_->heartbeat_count() > heartbeats + 3; }));
  EXPECT_TRUE(observer_->lost("cpu:0").empty());
}

TEST_F(WorkerLinkTest, ALostContextEndsTheWorkerAndANewOneGoesOn) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 100, "cpu:0", "sticky-at-3").ok());
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  ASSERT_TRUE(WaitEnded(7));  // its last report was not lost
  const absl::Status lost = observer_->lost("cpu:0")[0];
  EXPECT_NE(lost.message().find("exit code 10"), std::string::npos) << lost;
  EXPECT_NE(lost.message().find("illegal address"), std::string::npos) << lost;
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
}

TEST_F(WorkerLinkTest, ASuspectDeviceGetsNoWorkerAgain) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 100, "cpu:0", "suspect-at-3").ok());
  ASSERT_TRUE(Eventually([&] { return !observer_->lost("cpu:0").empty(); }));
  const absl::Status lost = observer_->lost("cpu:0")[0];
  EXPECT_TRUE(absl::IsDataLoss(lost)) << lost;
  EXPECT_NE(lost.message().find("uncorrectable"), std::string::npos) << lost;
  EXPECT_EQ(pool_->status("cpu:0").state, WorkerStatus::State::kQuarantined);
  EXPECT_TRUE(absl::IsUnavailable(LoadVersion(1)));
  pool_->Shutdown(WorkerPool::ShutdownMode::kDrain);  // does not wait for it
  EXPECT_EQ(observer_->ready("cpu:0").size(), 1u);
}

// A process that did not start the worker cannot see its exit code.
TEST_F(WorkerLinkTest, AnAdoptedWorkersLastWordsAreHeardToo) {
  StartReadyPool(Options());
  DetachPool();
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 100, "cpu:0", "suspect-at-3").ok());
  ASSERT_TRUE(Eventually([&] { return !observer_->lost("cpu:0").empty(); }));
  EXPECT_TRUE(absl::IsDataLoss(observer_->lost("cpu:0")[0]));
}

}  // namespace
}  // namespace gpupool::server
