#include "server/worker/bench_run.h"

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "server/worker/turnstile.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using testing_engine::FakeEngine;
using testing_engine::FakeEngineSettings;
using Result = absl::StatusOr<v1::DeviceBench>;

class BenchRunTest : public ::testing::Test {
 protected:
  void Open(FakeEngineSettings settings = {}) {
    engine_ = std::make_unique<FakeEngine>(settings);
    turnstile_ =
        std::make_unique<Turnstile>(engine_.get(), [](worker::v1::Report) {});
    bench_ = std::make_unique<BenchRun>(engine_.get(), turnstile_.get());
  }
  // Lets the compute thread begin with the tasks that were posted.
  void RunTasks() {
    thread_ = std::thread([this] { turnstile_->Run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    turnstile_->Drain();
    thread_.join();
  }
  std::future<Result> Measure(bool force = false) {
    auto result = std::make_shared<std::promise<Result>>();
    std::future<Result> future = result->get_future();
    bench_->Start(
        force, [result](Result bench) { result->set_value(std::move(bench)); });
    return future;
  }
  void Load() {
    turnstile_->Post([this] {
      worker::v1::LoadVersion request;
      request.set_version_id(5);
      EXPECT_TRUE(turnstile_->models().Load(request).ok());
    });
  }

  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<Turnstile> turnstile_;
  std::unique_ptr<BenchRun> bench_;
  std::thread thread_;
};

TEST_F(BenchRunTest, MakesAllMeasurementsInTheirOrder) {
  Open();
  auto measured = Measure();
  RunTasks();
  const Result bench = measured.get();
  ASSERT_TRUE(bench.ok()) << bench.status();
  ASSERT_EQ(bench->copies_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bench->copies(i).bytes(), static_cast<uint64_t>(i));
  }
  EXPECT_FALSE(bench->beside_work());
}

TEST_F(BenchRunTest, AnotherRunIsRefusedUntilTheFirstHasEnded) {
  Open();
  auto first = Measure();
  auto second = Measure();
  RunTasks();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(second.get().status()));
  EXPECT_TRUE(Measure().get().ok());
}

TEST_F(BenchRunTest, ADeviceWithWorkIsMeasuredOnlyByForce) {
  Open();
  Load();
  auto refused = Measure();
  auto forced = Measure(/*force=*/true);
  RunTasks();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.get().status()));
  const Result bench = forced.get();
  ASSERT_TRUE(bench.ok()) << bench.status();
  EXPECT_TRUE(bench->beside_work());
}

TEST_F(BenchRunTest, WorkThatComesInBetweenIsNotDelayedAndIsNoted) {
  Open();
  auto measured = Measure();
  Load();  // a task behind the first measurement
  RunTasks();
  const Result bench = measured.get();
  ASSERT_TRUE(bench.ok()) << bench.status();
  EXPECT_EQ(bench->copies_size(), 3);
  EXPECT_TRUE(bench->beside_work());
}

TEST_F(BenchRunTest, AnErrorEndsTheRun) {
  Open({.bench_error = absl::InternalError("lost")});
  auto first = Measure();
  RunTasks();
  EXPECT_EQ(first.get().status(), absl::InternalError("lost"));
  EXPECT_EQ(Measure().get().status(), absl::InternalError("lost"));
}

}  // namespace
}  // namespace gpupool::server
