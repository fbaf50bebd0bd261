#include "server/pool/worker_pool.h"

#include <algorithm>
#include <fstream>

#include "tests/server/pool/pool_fixture.h"

namespace gpupool::server {
namespace {

using testing_pool::Eventually;
using worker::v1::ToWorker;

class WorkerPoolTest : public testing_pool::PoolFixture {};

TEST_F(WorkerPoolTest, RefusesBadOptions) {
  testing_pool::RecordingObserver observer;
  PoolOptions options = Options();
  options.worker_binary = "/nonexistent/gpupool-worker";
  EXPECT_EQ(WorkerPool::Create(options, &observer).status().code(),
            absl::StatusCode::kNotFound);
  options = Options();
  options.devices.push_back({.name = "cpu:0"});
  EXPECT_EQ(WorkerPool::Create(options, &observer).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.devices.back().name = "tpu:0";
  EXPECT_EQ(WorkerPool::Create(options, &observer).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkerPoolTest, EveryDeviceGetsAWorkerAndMetaHasNoRing) {
  PoolOptions options = Options();
  options.devices.push_back({.name = "cpu:1"});
  options.devices.push_back({.name = "meta"});
  StartReadyPool(options);
  EXPECT_NE(pool_->ring("cpu:0"), nullptr);
  EXPECT_NE(pool_->ring("cpu:1"), pool_->ring("cpu:0"));
  EXPECT_EQ(pool_->ring("meta"), nullptr);
  EXPECT_EQ(pool_->ring("cpu:7"), nullptr);
  EXPECT_EQ(observer_->ready("cpu:1")[0].device(), "cpu:1");
  EXPECT_EQ(pool_->status("cpu:0").state, WorkerStatus::State::kReady);
  EXPECT_EQ(pool_->status("cpu:0").pid, pid("cpu:0"));
  EXPECT_EQ(pool_->status("cpu:0").boot_id,
            observer_->ready("cpu:0")[0].worker_boot_id());
}

TEST_F(WorkerPoolTest, RequestsAreAnsweredWithReplyOrTheWorkersError) {
  StartReadyPool(Options());
  ToWorker request;
  request.mutable_get_memory()->set_with_summary(true);
  const auto memory = Ask("cpu:0", request);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->memory().summary(), "all of it");
  request.mutable_inspect_dataset();
  EXPECT_EQ(Ask("cpu:0", request)->dataset().rows(), 7u);
  request.mutable_empty_cache();
  EXPECT_EQ(Ask("cpu:0", request)->empty_cache().freed_bytes(), 4096u);
  request.mutable_reset_peak();
  EXPECT_TRUE(Ask("cpu:0", request).ok());
  request.mutable_plan_inference();
  EXPECT_EQ(Ask("cpu:0", request).status(),
            absl::InvalidArgumentError("layer 3 \"dense\": no such layer"));
  request.mutable_unload_version()->set_version_id(3);
  EXPECT_EQ(Ask("cpu:0", request).status().code(), absl::StatusCode::kNotFound);
  request.clear_message();
  EXPECT_EQ(Ask("cpu:0", request).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Ask("cpu:9", request).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(WorkerPoolTest, LongRequestHoldsUpNeitherHeartbeatsNorOthers) {
  StartReadyPool(Options());
  ToWorker plan;
  const std::string gate = state_dir_ + "/planned";
  plan.mutable_plan_training()->mutable_spec()->set_name("after " + gate);
  std::promise<absl::Status> planned;
  pool_->Send("cpu:0", plan, kPatience,
              [&](auto reply) { planned.set_value(reply.status()); });
  const int before = observer_->heartbeat_count();
  ToWorker memory;
  memory.mutable_get_memory();
  EXPECT_TRUE(Ask("cpu:0", memory).ok());
  EXPECT_TRUE(
      Eventually([&] { return observer_->heartbeat_count() >= before + 2; }));
  auto plan_status = planned.get_future();
  EXPECT_EQ(plan_status.wait_for(std::chrono::seconds::zero()),
            std::future_status::timeout);
  std::ofstream(gate).close();
  EXPECT_TRUE(plan_status.get().ok());
}

TEST_F(WorkerPoolTest, RequestThatTakesTooLongTimesOutAndItsReplyIsDropped) {
  StartReadyPool(Options());
  ToWorker plan;
  const std::string gate = state_dir_ + "/planned";
  plan.mutable_plan_training()->mutable_spec()->set_name("after " + gate);
  EXPECT_EQ(Ask("cpu:0", plan, absl::Milliseconds(50)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  std::ofstream(gate).close();
  EXPECT_TRUE(Ask("cpu:0", plan).ok());
}

TEST_F(WorkerPoolTest, JobIsReportedFromStartToEnd) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 20).ok());
  ASSERT_TRUE(WaitEnded(7));
  const auto reports = observer_->reports();
  EXPECT_TRUE(reports.front().has_started());
  EXPECT_EQ(reports.back().ended().outcome(), worker::v1::JobEnded::SUCCEEDED);
  for (size_t i = 1; i < reports.size(); ++i) {
    EXPECT_GT(reports[i].sequence(), reports[i - 1].sequence());
  }
  EXPECT_TRUE(Eventually(
      [&] { return observer_->heartbeat("cpu:0").step_count() == 20; }));
  EXPECT_GT(observer_->heartbeat("cpu:0").step_seconds_total(), 0.019);
}

TEST_F(WorkerPoolTest, HeartbeatShowsWhatRunsAndHowBusyTheDeviceIs) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 1000000).ok());
  // Idle devices report 0. How close a busy device comes to 1 depends on the
  // machine.
  EXPECT_TRUE(Eventually([&] {
    const auto heartbeat = observer_->heartbeat("cpu:0");
    return heartbeat.running_size() == 1 && heartbeat.utilization() > 0;
  }));
}

TEST_F(WorkerPoolTest, SlotsAreAnsweredThroughTheRing) {
  StartReadyPool(Options());
  ASSERT_TRUE(LoadVersion(5).ok());
  const auto ring = pool_->ring("cpu:0");
  Slot slot = *ring->Acquire();
  testing_pool::FillRow(&slot, 5);
  const float value = 4;
  std::memcpy(slot.payload().data(), &value, 4);
  std::promise<float> answer;
  ring->Submit(std::move(slot), [&](absl::Status status, Slot slot) {
    EXPECT_TRUE(status.ok()) << status;
    float result = 0;
    std::memcpy(&result, slot.output(0).data(), 4);
    answer.set_value(result);
  });
  EXPECT_EQ(answer.get_future().get(), 8);
}

TEST_F(WorkerPoolTest, DrainCheckpointsWhatRunsAndEndsTheWorkers) {
  StartReadyPool(Options());
  ASSERT_TRUE(StartJob(7, 1000000).ok());
  ASSERT_TRUE(WaitProgress(7));
  const pid_t worker = pid("cpu:0");
  pool_->Shutdown(WorkerPool::ShutdownMode::kDrain);
  EXPECT_NE(::kill(worker, 0), 0);
  const auto reports = observer_->reports();
  ASSERT_GE(reports.size(), 3u);
  EXPECT_EQ(reports.back().ended().outcome(), worker::v1::JobEnded::STOPPED);
  // Progress may be reported between the two.
  EXPECT_TRUE(
      std::any_of(reports.begin(), reports.end(),
                  [](const auto& report) { return report.has_checkpoint(); }));
  EXPECT_TRUE(observer_->lost("cpu:0").empty());
  ToWorker request;
  request.mutable_get_memory();
  EXPECT_EQ(Ask("cpu:0", request).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(pool_->status("cpu:0").state, WorkerStatus::State::kStopped);
}

TEST_F(WorkerPoolTest, DrainKillsAWorkerThatDoesNotEndInTime) {
  StartReadyPool(Options());
  ASSERT_EQ(::kill(pid("cpu:0"), SIGSTOP), 0);
  pool_->Shutdown(WorkerPool::ShutdownMode::kDrain, absl::Milliseconds(200));
  EXPECT_NE(::kill(pid("cpu:0"), 0), 0);
}

TEST_F(WorkerPoolTest, ShutdownTwiceIsOnce) {
  StartReadyPool(Options());
  pool_->Shutdown(WorkerPool::ShutdownMode::kDrain);
  pool_->Shutdown(WorkerPool::ShutdownMode::kDetach);
}

}  // namespace
}  // namespace gpupool::server
