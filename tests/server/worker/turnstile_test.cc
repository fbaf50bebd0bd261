#include "server/worker/turnstile.h"

#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/worker/watched_engine.h"
#include "tests/server/ipc/ring_pair.h"
#include "tests/server/worker/fake_engine.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using testing_engine::FakeEngine;
using testing_engine::FakeEngineSettings;
using testing_ring::RingPair;
using worker::v1::JobEnded;
using worker::v1::Report;

class TurnstileTest : public ::testing::Test {
 protected:
  void Start(FakeEngineSettings settings = {}) {
    auto page = WorkPage::Create();
    ASSERT_TRUE(page.ok());
    page_.emplace(*std::move(page));
    engine_ = WatchEngine(std::make_unique<FakeEngine>(settings), &*page_);
    turnstile_ =
        std::make_unique<Turnstile>(engine_.get(), [this](Report report) {
          absl::MutexLock lock(&mutex_);
          reports_.push_back(std::move(report));
        });
    thread_ = std::thread([this] { turnstile_->Run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    turnstile_->Drain();
    thread_.join();
  }
  // Runs `work` on the compute thread and returns its status.
  absl::Status OnComputeThread(std::function<absl::Status()> work) {
    std::promise<absl::Status> result;
    turnstile_->Post([&] { result.set_value(work()); });
    return result.get_future().get();
  }
  static worker::v1::StartJob Start(uint64_t id, uint32_t attempt,
                                    uint64_t steps) {
    worker::v1::StartJob request;
    request.set_job_id(id);
    request.set_attempt(attempt);
    request.mutable_spec()->mutable_training()->set_steps(steps);
    return request;
  }
  absl::Status StartJob(uint64_t id, uint32_t attempt, uint64_t steps) {
    return OnComputeThread(
        [&] { return turnstile_->StartJob(Start(id, attempt, steps)); });
  }
  absl::Status StopJob(uint64_t id, uint32_t attempt) {
    worker::v1::StopJob request;
    request.set_job_id(id);
    request.set_attempt(attempt);
    request.set_reason(worker::v1::StopJob::CANCELLED);
    return OnComputeThread([&] { return turnstile_->StopJob(request); });
  }
  void Serve(RingPair* pair) {
    auto server = std::make_shared<std::unique_ptr<SlotRingServer>>(
        std::move(pair->server));
    ASSERT_TRUE(OnComputeThread([&] {
                  turnstile_->SetRing(std::move(*server));
                  worker::v1::LoadVersion request;
                  request.set_version_id(5);
                  return turnstile_->models().Load(request).status();
                }).ok());
  }
  void WaitFor(std::function<bool(const std::vector<Report>&)> condition) {
    absl::MutexLock lock(&mutex_);
    const auto holds = [&] { return condition(reports_); };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), kPatience));
  }
  static bool Ended(const std::vector<Report>& reports, uint64_t job) {
    return std::any_of(reports.begin(), reports.end(), [&](const Report& r) {
      return r.job_id() == job && r.has_ended();
    });
  }

  // Registrations that engines refer to.
  testing_engine::FakeRegistrations registered_;
  absl::Notification gate_;
  std::atomic<int> started_{0};
  std::optional<WorkPage> page_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Turnstile> turnstile_;
  std::thread thread_;
  absl::Mutex mutex_;
  std::vector<Report> reports_ ABSL_GUARDED_BY(mutex_);
};

void SubmitRow(RingPair* pair, SlotRingClient::Done done) {
  Slot slot = *pair->client->AcquireUntil(absl::InfiniteFuture());
  SlotHeader& header = slot.header();
  header.version_id = 5;
  header.rows = 1;
  header.input_count = header.output_count = 1;
  SlotTensor tensor = {};
  tensor.data_type = 1;
  tensor.rank = 2;
  tensor.dims[0] = 1;
  tensor.dims[1] = 2;
  tensor.bytes = 8;
  header.inputs[0] = tensor;
  tensor.offset = 64;
  header.outputs[0] = tensor;
  pair->client->Submit(std::move(slot), std::move(done));
}

TEST_F(TurnstileTest, AProfileIsOfTheAttemptThatRunsAndOthersGoOn) {
  Start();
  ASSERT_TRUE(StartJob(1, 2, 1000000).ok());
  ASSERT_TRUE(StartJob(2, 1, 1000000).ok());
  const auto profile = [this](uint64_t id, uint32_t attempt) {
    worker::v1::ProfileJob request;
    request.set_job_id(id);
    request.set_attempt(attempt);
    request.set_steps(3);
    std::promise<absl::StatusOr<worker::v1::ProfileReply>> answer;
    turnstile_->Post([&] {
      turnstile_->ProfileJob(
          request, [&](auto reply) { answer.set_value(std::move(reply)); });
    });
    return answer.get_future().get();
  };
  const auto made = profile(1, 2);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->steps(), 3u);
  EXPECT_EQ(made->sha256(), testing_engine::DigestOfStep(3));
  EXPECT_TRUE(absl::IsAborted(profile(1, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(profile(9, 1).status()));
}

TEST_F(TurnstileTest, SlotIsAnsweredWhileAJobTrains) {
  Start({.step_time = std::chrono::milliseconds(1)});
  RingPair pair = RingPair::Make({4, 4096});
  Serve(&pair);
  ASSERT_TRUE(StartJob(1, 1, 1000000).ok());
  for (int i = 0; i < 20; ++i) {
    absl::Notification answered;
    SubmitRow(&pair, [&](absl::Status status, Slot) {
      EXPECT_TRUE(status.ok()) << status;
      answered.Notify();
    });
    ASSERT_TRUE(answered.WaitForNotificationWithTimeout(kPatience));
  }
  EXPECT_TRUE(WaitUntil([&] { return turnstile_->view().step_count > 0; }));
  EXPECT_EQ(turnstile_->view().running.size(), 1u);
}

TEST_F(TurnstileTest, WaitingSlotsPassBeforeTheNextStep) {
  Start({.step_time = std::chrono::milliseconds(1)});
  RingPair pair = RingPair::Make({8, 4096});
  Serve(&pair);
  ASSERT_TRUE(StartJob(1, 1, 1000000).ok());
  // Keeps the compute thread busy until all slots wait.
  absl::Notification all_wait;
  turnstile_->Post([&] { all_wait.WaitForNotification(); });
  std::vector<uint64_t> step_at_answer(8);
  std::atomic<int> answers{0};
  for (int i = 0; i < 8; ++i) {
    SubmitRow(&pair, [&, i](absl::Status, Slot) {
      step_at_answer[i] = turnstile_->view().step_count;
      ++answers;
    });
  }
  all_wait.Notify();
  ASSERT_TRUE(WaitUntil([&] { return answers == 8; }));
  EXPECT_LE(step_at_answer.back() - step_at_answer.front(), 1u);
}

TEST_F(TurnstileTest, SlotsAreAnsweredWhileTheDeviceIsAtAStep) {
  Start({.step_gate = &gate_, .steps_started = &started_});
  RingPair pair = RingPair::Make({8, 4096});
  Serve(&pair);
  ASSERT_TRUE(StartJob(1, 1, 1).ok());
  ASSERT_TRUE(WaitUntil([&] { return started_ > 0; }));
  std::atomic<int> answers{0};
  const auto answered = [&](absl::Status status, Slot) {
    EXPECT_TRUE(status.ok()) << status;
    ++answers;
  };
  for (int i = 0; i < kMaxSlotsPerTurn; ++i) SubmitRow(&pair, answered);
  ASSERT_TRUE(WaitUntil([&] { return answers == kMaxSlotsPerTurn; }));
  EXPECT_EQ(turnstile_->view().step_count, 0u);
  // Enough for one step. The next one waits for its end.
  SubmitRow(&pair, answered);
  LetOthersRun();
  EXPECT_EQ(answers, kMaxSlotsPerTurn);
  gate_.Notify();
  WaitFor([](const auto& reports) { return Ended(reports, 1); });
  EXPECT_TRUE(WaitUntil([&] { return answers > kMaxSlotsPerTurn; }));
}

TEST_F(TurnstileTest, TasksWaitForTheEndOfTheStep) {
  Start({.step_gate = &gate_, .steps_started = &started_});
  ASSERT_TRUE(StartJob(1, 1, 2).ok());
  ASSERT_TRUE(WaitUntil([&] { return started_ > 0; }));
  absl::Notification ran;
  turnstile_->Post([&] { ran.Notify(); });
  LetOthersRun();
  EXPECT_FALSE(ran.HasBeenNotified());
  EXPECT_EQ(started_, 1);
  gate_.Notify();
  ran.WaitForNotification();
  WaitFor([](const auto& reports) { return Ended(reports, 1); });
}

TEST_F(TurnstileTest, TrainingGoesOnUnderFullInferenceLoad) {
  Start({.infer_time = std::chrono::microseconds(50)});
  RingPair pair = RingPair::Make({8, 4096});
  Serve(&pair);
  std::atomic<bool> stop{false};
  std::thread load([&] {
    while (!stop) SubmitRow(&pair, [](absl::Status, Slot) {});
  });
  ASSERT_TRUE(StartJob(1, 1, 20).ok());
  WaitFor([](const auto& reports) { return Ended(reports, 1); });
  stop = true;
  load.join();
}

TEST_F(TurnstileTest, JobsOfOneDeviceTakeTurns) {
  Start({.step_time = std::chrono::milliseconds(1)});
  // Both start before the first step, so that neither has a lead.
  ASSERT_TRUE(
      OnComputeThread([&] {
        const absl::Status first = turnstile_->StartJob(Start(1, 1, 1000000));
        return first.ok() ? turnstile_->StartJob(Start(2, 1, 1000000)) : first;
      }).ok());
  std::map<uint64_t, uint64_t> steps;
  ASSERT_TRUE(WaitUntil([&] {
    for (const auto& attempt : turnstile_->view().running) {
      steps[attempt.job_id()] = attempt.step();
    }
    return steps[1] >= 50;
  }));
  EXPECT_NEAR(static_cast<double>(steps[1]), static_cast<double>(steps[2]), 5);
}

TEST_F(TurnstileTest, AttemptsAreFenced) {
  Start({.step_time = std::chrono::milliseconds(1)});
  ASSERT_TRUE(StartJob(1, 2, 1000000).ok());
  EXPECT_TRUE(StartJob(1, 2, 1000000).ok());
  EXPECT_EQ(turnstile_->view().running.size(), 1u);
  EXPECT_EQ(StartJob(1, 1, 9).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(StartJob(1, 3, 9).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(StopJob(1, 1).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(StopJob(9, 1).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(StopJob(1, 2).ok());
  WaitFor([](const auto& reports) { return Ended(reports, 1); });
}

TEST_F(TurnstileTest, RunningJobIsInTheViewFromTheMomentOfItsStart) {
  Start({.step_gate = &gate_, .steps_started = &started_});
  ASSERT_TRUE(StartJob(1, 1, 2).ok());
  ASSERT_EQ(turnstile_->view().running.size(), 1u);
  EXPECT_EQ(turnstile_->view().running[0].job_id(), 1u);
  ASSERT_TRUE(WaitUntil([&] { return started_ > 0; }));
  EXPECT_EQ(turnstile_->view().running.size(), 1u) << "the first step runs";
  gate_.Notify();
}

TEST_F(TurnstileTest, DrainEndsEveryJobWithACheckpointAndRefusesNewOnes) {
  Start({.step_time = std::chrono::milliseconds(1)});
  ASSERT_TRUE(StartJob(1, 1, 1000000).ok());
  ASSERT_TRUE(StartJob(2, 1, 1000000).ok());
  WaitFor([](const auto& reports) { return reports.size() >= 4; });
  turnstile_->Drain();
  thread_.join();
  absl::MutexLock lock(&mutex_);
  int checkpoints = 0;
  int stopped = 0;
  for (const Report& report : reports_) {
    checkpoints += report.has_checkpoint();
    stopped += report.ended().outcome() == JobEnded::STOPPED;
  }
  EXPECT_EQ(checkpoints, 2);
  EXPECT_EQ(stopped, 2);
}

TEST_F(TurnstileTest, AnAttemptThatSavesIsInTheViewAndTheNextOneRuns) {
  absl::Notification disk;
  Start({.step_time = std::chrono::milliseconds(1), .write_gate = &disk});
  ASSERT_TRUE(StartJob(1, 1, 1000000).ok());
  WaitFor([](const auto& reports) { return reports.size() >= 2; });
  worker::v1::StopJob stop;
  stop.set_job_id(1);
  stop.set_attempt(1);
  stop.set_reason(worker::v1::StopJob::DRAIN);
  ASSERT_TRUE(OnComputeThread([&] { return turnstile_->StopJob(stop); }).ok());
  WaitFor([](const auto& reports) { return Ended(reports, 1); });
  ASSERT_TRUE(StartJob(2, 1, 3).ok());
  const TurnstileView view = turnstile_->view();
  EXPECT_TRUE(
      std::none_of(view.running.begin(), view.running.end(),
                   [](const auto& attempt) { return attempt.job_id() == 1; }));
  ASSERT_EQ(view.saving.size(), 1u);
  EXPECT_EQ(view.saving[0].job_id(), 1u);
  EXPECT_EQ(view.saving[0].attempt(), 1u);
  // The next job makes progress while the disk does not answer.
  WaitFor([](const auto& reports) {
    return std::any_of(reports.begin(), reports.end(), [](const Report& r) {
      return r.job_id() == 2 && r.has_progress();
    });
  });
  disk.Notify();
  turnstile_->Drain();
  thread_.join();
  EXPECT_TRUE(turnstile_->view().saving.empty());
  absl::MutexLock lock(&mutex_);
  std::vector<JobEnded::Outcome> ends;
  for (const Report& report : reports_) {
    if (report.job_id() == 1 && report.has_ended()) {
      ends.push_back(report.ended().outcome());
    }
  }
  EXPECT_EQ(ends, (std::vector{JobEnded::SAVING, JobEnded::STOPPED}));
}

TEST_F(TurnstileTest, IdleThreadUsesNoTimeAndABusyOneAllOfIt) {
  Start({.step_time = std::chrono::milliseconds(1)});
  ASSERT_TRUE(OnComputeThread([] { return absl::OkStatus(); }).ok());
  // The thread runs. It is idle once two readings show the same processor time.
  std::chrono::nanoseconds before{-1};
  ASSERT_TRUE(WaitUntil([&] {
    return std::exchange(before, turnstile_->view().busy_time) ==
           turnstile_->view().busy_time;
  }));
  LetOthersRun();
  EXPECT_EQ(turnstile_->view().busy_time, before);
  ASSERT_TRUE(StartJob(1, 1, 1000000).ok());
  const auto idle = turnstile_->view().busy_time;
  EXPECT_TRUE(WaitUntil([&] {
    return turnstile_->view().busy_time - idle > std::chrono::milliseconds(80);
  }));
}

TEST_F(TurnstileTest, AnnouncedAttemptIsSeenUntilItIsTakenOrRefused) {
  Start({.step_time = std::chrono::milliseconds(1)});
  turnstile_->Announce(1, 1);
  turnstile_->Announce(1, 2);
  EXPECT_EQ(turnstile_->view().running.size(), 2u);
  ASSERT_TRUE(StartJob(1, 1, 1000000).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(StartJob(1, 2, 1000000)));
  const auto running = turnstile_->view().running;
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].attempt(), 1u);
}

TEST_F(TurnstileTest, AfterAFaultOfTheDeviceNothingElseIsTouched) {
  Start();
  worker::v1::StartJob request;
  request.set_job_id(1);
  request.mutable_spec()->set_name("sticky-at-2");
  request.mutable_spec()->mutable_training()->set_steps(5);
  ASSERT_TRUE(
      OnComputeThread([&] { return turnstile_->StartJob(request); }).ok());
  thread_.join();  // Run has returned
  EXPECT_EQ(engine_->exit_code(), kExitDeviceFault);
  absl::MutexLock lock(&mutex_);
  ASSERT_FALSE(reports_.empty());
  EXPECT_EQ(reports_.back().ended().outcome(), JobEnded::INTERRUPTED);
}

TEST_F(TurnstileTest, AbortReachesARankThatWaitsOnTheComputeThread) {
  Start();
  worker::v1::StartJob request;
  request.set_job_id(1);
  request.set_attempt(2);
  request.mutable_spec()->set_name("lonely");
  request.mutable_group()->set_size(2);
  turnstile_->AbortGroup(1, 2);  // an unknown job
  turnstile_->Announce(1, 2);
  ASSERT_TRUE(
      OnComputeThread([&] { return turnstile_->StartJob(request); }).ok());
  turnstile_->AbortGroup(1, 1);  // an earlier attempt
  turnstile_->AbortGroup(1, 2);
  WaitFor([](const std::vector<Report>& reports) { return !reports.empty(); });
  EXPECT_EQ(reports_.back().ended().outcome(), JobEnded::STOPPED);
}

TEST_F(TurnstileTest, AbortBeforeTheStartHoldsStill) {
  Start();
  worker::v1::StartJob request;
  request.set_job_id(1);
  request.set_attempt(1);
  request.mutable_spec()->set_name("lonely");
  request.mutable_group()->set_size(2);
  turnstile_->Announce(1, 1);
  turnstile_->AbortGroup(1, 1);
  ASSERT_TRUE(
      OnComputeThread([&] { return turnstile_->StartJob(request); }).ok());
  WaitFor([](const std::vector<Report>& reports) { return !reports.empty(); });
}

TEST_F(TurnstileTest, TheEngineKnowsTheMemoryOfTheRingThatIsServed) {
  Start({.registered = &registered_});
  RingPair first = RingPair::Make({2, 4096});
  Serve(&first);
  EXPECT_EQ(registered_.live, 1);
  RingPair second = RingPair::Make({2, 4096});
  Serve(&second);
  EXPECT_EQ(registered_.asked, 2);
  EXPECT_EQ(registered_.live, 1);  // the first one's registration has ended
  second.submission_queue()->tail.store(1000);
  // The turn of the first task finds that the ring is corrupt.
  ASSERT_TRUE(OnComputeThread([] { return absl::OkStatus(); }).ok());
  ASSERT_TRUE(OnComputeThread([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(registered_.live, 0);
}

TEST_F(TurnstileTest, ARingWhoseMemoryIsRefusedIsServedAllTheSame) {
  registered_.error = absl::ResourceExhaustedError("no pages to pin");
  Start({.registered = &registered_});
  RingPair pair = RingPair::Make({2, 4096});
  Serve(&pair);
  EXPECT_EQ(registered_.asked, 1);
  absl::Notification answered;
  SubmitRow(&pair, [&](absl::Status status, Slot) {
    EXPECT_TRUE(status.ok()) << status;
    answered.Notify();
  });
  answered.WaitForNotification();
}

TEST_F(TurnstileTest, CorruptRingIsDroppedAndTheNextOneServed) {
  Start();
  RingPair broken = RingPair::Make({2, 4096});
  Serve(&broken);
  broken.submission_queue()->tail.store(1000);
  ASSERT_TRUE(OnComputeThread([] { return absl::OkStatus(); }).ok());
  RingPair pair = RingPair::Make({2, 4096});
  Serve(&pair);
  absl::Notification answered;
  SubmitRow(&pair, [&](absl::Status status, Slot) {
    EXPECT_TRUE(status.ok()) << status;
    answered.Notify();
  });
  answered.WaitForNotification();
}

}  // namespace
}  // namespace gpupool::server
