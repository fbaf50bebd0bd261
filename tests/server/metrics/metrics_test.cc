#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, AbsentJobStatesAreZero) {
  Metrics metrics;
  metrics.SetJobs({{v1::RUNNING, 2}});
  EXPECT_THAT(metrics.Text(), HasSubstr("gpupool_jobs{state=\"running\"} 2"));
  metrics.SetJobs({{v1::QUEUED, 1}});
  EXPECT_THAT(metrics.Text(), HasSubstr("gpupool_jobs{state=\"running\"} 0"));
  EXPECT_THAT(metrics.Text(), HasSubstr("gpupool_jobs{state=\"queued\"} 1"));
}

TEST(MetricsTest, LabelValuesAreInTheOrderOfTheRow) {
  Metrics metrics;
  metrics.Set(GaugeName::kQueueJobs, {"short", "waiting"}, 3);
  metrics.Set(GaugeName::kQueueJobs, {"short", "running"}, 2);
  metrics.Set(GaugeName::kQueueDevices, {"short"}, 5);
  const std::string text = metrics.Text();
  for (const char* series :
       {"gpupool_queue_jobs{queue=\"short\",state=\"waiting\"} 3",
        "gpupool_queue_jobs{queue=\"short\",state=\"running\"} 2",
        "gpupool_queue_devices{queue=\"short\"} 5"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
}

TEST(MetricsTest, EveryLabelNeedsAValue) {
  Metrics metrics;
  EXPECT_DEATH(metrics.Set(GaugeName::kQueueJobs, {"short"}, 3),
               "values.size\\(\\) == family.labels.size\\(\\)");
}

TEST(MetricsTest, FamiliesWithoutLabelsStartAtZero) {
  const std::string text = Metrics().Text();
  EXPECT_THAT(text, HasSubstr("gpupool_reserved_devices 0"));
  EXPECT_THAT(text, HasSubstr("gpupool_jobs_blamed_total 0"));
  EXPECT_THAT(text, HasSubstr("gpupool_job_queue_wait_seconds_count 0"));
}

TEST(MetricsTest, CountersAddUp) {
  Metrics metrics;
  metrics.Count(CounterName::kPreemptions, {"order"}, 0);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_preemptions_total{reason=\"order\"} 0"));
  metrics.Count(CounterName::kPreemptions, {"order"});
  metrics.Count(CounterName::kPreemptions, {"order"}, 2);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_preemptions_total{reason=\"order\"} 3"));
}

TEST(MetricsTest, DurationsAreObservedInSeconds) {
  Metrics metrics;
  metrics.Observe(HistogramName::kQueueWait, absl::Milliseconds(20));
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("gpupool_job_queue_wait_seconds_sum 0.02"));
  EXPECT_THAT(
      text, HasSubstr("gpupool_job_queue_wait_seconds_bucket{le=\"0.05\"} 1"));
  EXPECT_THAT(
      text, HasSubstr("gpupool_job_queue_wait_seconds_bucket{le=\"0.01\"} 0"));
}

TEST(MetricsTest, DeviceMemoryHasFourKinds) {
  Metrics metrics;
  v1::MemoryStats stats;
  stats.set_device("cpu:0");
  stats.set_allocated_bytes(1);
  stats.set_reserved_bytes(2);
  stats.set_limit_bytes(3);
  stats.set_peak_allocated_bytes(4);
  metrics.SetDeviceMemory(stats);
  const std::string text = metrics.Text();
  const std::pair<const char*, const char*> kinds[] = {
      {"allocated", "1"}, {"reserved", "2"}, {"limit", "3"}, {"peak", "4"}};
  for (const auto& [kind, value] : kinds) {
    EXPECT_THAT(text, HasSubstr(std::string("gpupool_device_memory_bytes{"
                                            "device=\"cpu:0\",kind=\"") +
                                kind + "\"} " + value));
  }
}

TEST(MetricsTest, StepsBetweenHeartbeatsCountWithTheirMean) {
  Metrics metrics;
  metrics.SetTrainingSteps("cpu:0", 10, 0.02);
  metrics.SetTrainingSteps("cpu:0", 10, 0.02);
  metrics.SetTrainingSteps("cpu:0", 30, 0.06);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("gpupool_training_step_seconds_count{device="
                              "\"cpu:0\"} 30"));
  EXPECT_THAT(text, HasSubstr("device=\"cpu:0\",le=\"0.0025\"} 30"));
  EXPECT_THAT(text, HasSubstr("device=\"cpu:0\",le=\"0.001\"} 0"));
}

TEST(MetricsTest, SmallerStepCountIsANewWorker) {
  Metrics metrics;
  metrics.SetTrainingSteps("cpu:0", 10, 0.02);
  metrics.SetTrainingSteps("cpu:0", 4, 0.01);
  EXPECT_THAT(metrics.Text(), HasSubstr("gpupool_training_step_seconds_count{"
                                        "device=\"cpu:0\"} 14"));
}

TEST(MetricsTest, DeviceThatNeverRestartedHasZeroRestarts) {
  Metrics metrics;
  metrics.SetDeviceUp("cpu:1", true);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_worker_restarts_total{device=\"cpu:1\"} 0"));
  metrics.CountWorkerLoss("cpu:1", absl::StatusCode::kUnavailable);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_worker_restarts_total{device=\"cpu:1\"} 1"));
}

TEST(MetricsTest, LossesOfWorkersAreCountedByTheirKind) {
  Metrics metrics;
  metrics.SetDeviceUp("cpu:1", true);
  const std::string before = metrics.Text();
  const std::string lost =
      "gpupool_device_faults_total{class=\"lost_context\",device=\"cpu:1\"} ";
  const std::string suspect =
      "gpupool_device_faults_total{class=\"suspect\",device=\"cpu:1\"} ";
  const std::string hangs = "gpupool_worker_hangs_total{device=\"cpu:1\"} ";
  EXPECT_THAT(before, HasSubstr(lost + "0"));
  EXPECT_THAT(before, HasSubstr(suspect + "0"));
  EXPECT_THAT(before, HasSubstr(hangs + "0"));
  metrics.CountWorkerLoss("cpu:1", absl::StatusCode::kUnavailable);
  metrics.CountWorkerLoss("cpu:1", absl::StatusCode::kAborted);
  metrics.CountWorkerLoss("cpu:1", absl::StatusCode::kAborted);
  metrics.CountWorkerLoss("cpu:1", absl::StatusCode::kDeadlineExceeded);
  metrics.CountWorkerLoss("cpu:1", absl::StatusCode::kDataLoss);
  const std::string after = metrics.Text();
  EXPECT_THAT(after, HasSubstr(lost + "2"));
  EXPECT_THAT(after, HasSubstr(suspect + "1"));
  EXPECT_THAT(after, HasSubstr(hangs + "1"));
  EXPECT_THAT(after,
              HasSubstr("gpupool_worker_restarts_total{device=\"cpu:1\"} 4"));
  EXPECT_THAT(after,
              HasSubstr("gpupool_device_quarantined{device=\"cpu:1\"} 1"));
}

TEST(MetricsTest, RehearsalsAreCountedByTheirEnds) {
  Metrics metrics;
  metrics.SetRehearsals(3);
  metrics.CountRehearsal("job", absl::OkStatus());
  metrics.CountRehearsal("job", absl::InvalidArgumentError("signal 6"));
  metrics.CountRehearsal("version", absl::UnavailableError("no worker"));
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("gpupool_rehearsals_waiting 3"));
  for (const char* series :
       {"kind=\"job\",state=\"passed\"} 1", "kind=\"job\",state=\"refused\"} 1",
        "kind=\"version\",state=\"untried\"} 1",
        "kind=\"version\",state=\"passed\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
}

TEST(MetricsTest, GaugesKeepTheLastValue) {
  Metrics metrics;
  metrics.Set(GaugeName::kDeviceDrained, {"cpu:1"}, true);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_device_drained{device=\"cpu:1\"} 1"));
  metrics.Set(GaugeName::kDeviceDrained, {"cpu:1"}, false);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_device_drained{device=\"cpu:1\"} 0"));
}

TEST(MetricsTest, HandlesOfOneVersionShareTheirSeries) {
  Metrics metrics;
  auto first = metrics.ForVersion("digits", "1", 64);
  auto second = metrics.ForVersion("digits", "1", 64);
  EXPECT_EQ(first, second);
  first->CountRequest(absl::StatusCode::kOk);
  second->CountRequest(absl::StatusCode::kOk);
  first->CountRequest(absl::StatusCode::kInvalidArgument);
  const std::string text = metrics.Text();
  EXPECT_THAT(text,
              HasSubstr("{code=\"OK\",model=\"digits\",version=\"1\"} 2"));
  EXPECT_THAT(text, HasSubstr("{code=\"INVALID_ARGUMENT\",model=\"digits\""));
  EXPECT_THAT(text, HasSubstr("gpupool_inference_queue_limit{model=\"digits\","
                              "version=\"1\"} 64"));
}

TEST(MetricsTest, SeriesOfAVersionEndWithItsLastHandle) {
  Metrics metrics;
  auto version = metrics.ForVersion("digits", "1", 64);
  version->CountRequest(absl::StatusCode::kOk);
  version->ObserveTotal(absl::Milliseconds(3));
  version->Observe(HistogramName::kBatchSize, 8);
  version->Count(CounterName::kProgramsCompiled, 1);
  version.reset();
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("digits")));
  version = metrics.ForVersion("digits", "1", 64);
  version->CountRequest(absl::StatusCode::kOk);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("{code=\"OK\",model=\"digits\",version=\"1\"} 1"));
}

TEST(MetricsTest, RequestsOfAVersionCountByTritonsNames) {
  Metrics metrics;
  auto version = metrics.ForVersion("digits", "1", 64);
  EXPECT_THAT(metrics.Text(), HasSubstr("nv_inference_request_success{model="
                                        "\"digits\",version=\"1\"} 0"));
  version->CountRequest(absl::StatusCode::kOk);
  version->CountRequest(absl::StatusCode::kCancelled);
  version->Count(CounterName::kTritonRows, 7);
  version->Set(GaugeName::kTritonPending, 2);
  const std::string text = metrics.Text();
  for (const char* series :
       {"nv_inference_request_success{model=\"digits\",version=\"1\"} 1",
        "nv_inference_request_failure{model=\"digits\",reason=\"CANCELED\","
        "version=\"1\"} 1",
        "nv_inference_request_failure{model=\"digits\",reason=\"OTHER\","
        "version=\"1\"} 0",
        "nv_inference_count{model=\"digits\",version=\"1\"} 7",
        "nv_inference_pending_request_count{model=\"digits\",version=\"1\"} "
        "2"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
  version.reset();
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("digits")));
}

TEST(MetricsTest, TritonsNamesCanBeLeftOut) {
  Metrics metrics({.triton_names = false});
  auto version = metrics.ForVersion("digits", "1", 64);
  version->CountRequest(absl::StatusCode::kOk);
  version->CountRequest(absl::StatusCode::kCancelled);
  version->Count(CounterName::kTritonRows, 7);
  version->Set(GaugeName::kTritonPending, 2);
  v1::Device gpu;
  gpu.set_name("cuda:0");
  gpu.mutable_gpu()->set_uuid("GPU-1");
  gpu.mutable_readings()->set_power_watts(100);
  metrics.SetGpuReadings(gpu);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("nv_")));
  EXPECT_THAT(metrics.Text(), HasSubstr("DCGM_FI_DEV_POWER_USAGE{"));
  EXPECT_THAT(metrics.Text(), HasSubstr("code=\"CANCELLED\""));
  metrics.ClearGpuReadings("cuda:0");
  version.reset();
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("digits")));
}

TEST(MetricsTest, ReadingsOfAGpuHaveTritonsNamesToo) {
  Metrics metrics;
  v1::Device gpu;
  gpu.set_name("cuda:0");
  gpu.mutable_gpu()->set_uuid("GPU-1");
  gpu.mutable_readings()->set_power_watts(100);
  metrics.SetGpuReadings(gpu);
  EXPECT_THAT(metrics.Text(),
              HasSubstr("nv_gpu_power_usage{gpu_uuid=\"GPU-1\"} 100"));
  metrics.ClearGpuReadings("cuda:0");
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("GPU-1")));
}

TEST(MetricsTest, StagesAreSeparateHistograms) {
  Metrics metrics;
  auto version = metrics.ForVersion("digits", "1", 64);
  version->ObserveQueue(absl::Microseconds(80));
  version->ObserveCompute(absl::Milliseconds(2));
  version->ObserveTotal(absl::Milliseconds(3));
  version->Set(GaugeName::kInferenceQueueDepth, 5);
  const std::string text = metrics.Text();
  for (const char* stage : {"queue", "compute", "total"}) {
    EXPECT_THAT(text,
                HasSubstr("gpupool_inference_request_duration_seconds_count{"
                          "model=\"digits\",stage=\"" +
                          std::string(stage) + "\",version=\"1\"} 1"));
  }
  EXPECT_THAT(text, HasSubstr("gpupool_inference_queue_depth{model=\"digits\","
                              "version=\"1\"} 5"));
}

TEST(MetricsTest, VersionsComeAndGoWhileScrapedAndCounted) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 200; ++i) {
        auto version = metrics.ForVersion("m", "1", 1);
        version->CountRequest(absl::StatusCode::kOk);
        version->ObserveTotal(absl::Milliseconds(1));
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(metrics.Text().empty());
  for (auto& thread : threads) thread.join();
}

TEST(MetricsTest, AVersionHasOnlyFamiliesOfVersions) {
  Metrics metrics;
  auto version = metrics.ForVersion("digits", "1", 64);
  EXPECT_DEATH(version->Set(GaugeName::kReservedDevices, 1),
               "series != nullptr");
}

// Gives everything that the daemon exposes to promtool. Triton's names break
// the rules for names that promtool checks.
TEST(MetricsTest, PromtoolFindsNothingToSay) {
  if (std::system("promtool --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  Metrics metrics({.triton_names = false});
  metrics.Set(GaugeName::kBuildInfo, {"0.1.0", "abc"}, 1);
  metrics.Observe(HistogramName::kQueueWait, absl::Seconds(1));
  metrics.Observe(HistogramName::kStoreCommit, absl::Milliseconds(2));
  metrics.Observe(HistogramName::kDecision, absl::Microseconds(3));
  v1::MemoryStats stats;
  stats.set_device("cpu:0");
  metrics.SetDeviceMemory(stats);
  metrics.Set(GaugeName::kDeviceUtilization, {"cpu:0"}, 0.5);
  metrics.SetDeviceUp("cpu:0", true);
  metrics.SetTrainingSteps("cpu:0", 3, 0.1);
  auto version = metrics.ForVersion("digits", "1", 8);
  version->CountRequest(absl::StatusCode::kOk);
  version->ObserveTotal(absl::Milliseconds(1));
  version->Observe(HistogramName::kBatchSize, 1);
  metrics.CountUnroutedRequest(absl::StatusCode::kNotFound);
  metrics.Set(GaugeName::kQueueDepth, {"control"}, 1);
  FILE* promtool = popen("promtool check metrics 2>&1 > /dev/null", "w");
  ASSERT_NE(promtool, nullptr);
  const std::string text = metrics.Text();
  fwrite(text.data(), 1, text.size(), promtool);
  EXPECT_EQ(pclose(promtool), 0);
}

}  // namespace
}  // namespace gpupool::server
