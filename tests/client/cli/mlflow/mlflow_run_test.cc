#include "client/cli/mlflow/mlflow_run.h"

#include <gmock/gmock.h>

#include "gpupool/v1/job.pb.h"
#include "tests/client/testing/fake_tracking.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TrackingErrorBody(const char* code) {
  return Json{{"error_code", code}, {"message", "the reason"}}.dump();
}

class MlflowRunTest : public ::testing::Test {
 protected:
  MlflowRunTest()
      : server_({.url = *ParseTrackingUrl(fake_.url()), .timeout = kPatience}) {
    job_.set_id(7);
    job_.mutable_spec()->set_name("digits");
    job_.mutable_create_time()->set_seconds(1000);
    job_.mutable_create_time()->set_nanos(250000000);
  }

  // Answers as a server does that has the experiment 3 and the run.
  void HaveRun(const Json& run) {
    HaveExperiment();
    fake_.Give("runs/search",
               {.body = Json{{"runs", Json::array({run})}}.dump()});
  }
  void HaveExperiment() {
    fake_.Give("experiments/get-by-name",
               {.body = R"({"experiment": {"experiment_id": "3"}})"});
  }
  // Answers as a server does that creates the run r1.
  void HaveNoRun() {
    HaveExperiment();
    fake_.Give("runs/search", {});
    fake_.Give("runs/create", {.body = R"({"run": {"info": {"run_id": "r1",
                                             "status": "RUNNING"}}})"});
    fake_.Give("runs/log-batch", {});
  }

  absl::StatusOr<MlflowRun> Open(
      absl::Duration patience = absl::ZeroDuration()) {
    return MlflowRun::Open(server_, job_,
                           {.experiment = "a b", .server = "pool:8001"},
                           {.open = patience, .send = patience});
  }

  static MetricPoint Point(const std::string& key, uint64_t step) {
    return {.key = key, .value = 0.5, .step = step, .time = absl::UnixEpoch()};
  }

  // Returns "key:step" of each point that call `index` of log-batch sent.
  std::vector<std::string> Sent(size_t index) const {
    std::vector<std::string> sent;
    const auto calls = fake_.Of("runs/log-batch");
    if (index >= calls.size()) return sent;
    for (const Json& metric : calls[index].body["metrics"]) {
      sent.push_back(metric["key"].get<std::string>() + ":" +
                     metric["step"].dump());
    }
    return sent;
  }

  FakeTracking fake_;
  TrackingServer server_;
  v1::Job job_;
};

TEST_F(MlflowRunTest, CreatesARunWithTagsAndParams) {
  HaveNoRun();
  job_.mutable_spec()->mutable_publish()->set_model("digits-large");
  job_.mutable_start_time()->set_seconds(1010);
  const auto run = Open();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->id(), "r1");
  EXPECT_EQ(run->Page(), fake_.url() + "/#/experiments/3/runs/r1");
  EXPECT_THAT(fake_.Of("experiments/get-by-name")[0].target,
              HasSubstr("?experiment_name=a%20b"));
  EXPECT_EQ(fake_.Of("runs/search")[0].body["filter"],
            "tags.`gpupool.job_id` = '7' and tags.`gpupool.submit_time` = "
            "'1970-01-01T00:16:40.25Z'");
  const Json created = fake_.Of("runs/create")[0].body;
  EXPECT_EQ(created["experiment_id"], "3");
  EXPECT_EQ(created["run_name"], "digits");
  EXPECT_EQ(created["start_time"], 1010000);
  std::map<std::string, std::string> tags;
  for (const Json& tag : created["tags"]) tags[tag["key"]] = tag["value"];
  EXPECT_EQ(tags, (std::map<std::string, std::string>{
                      {"gpupool.job_id", "7"},
                      {"gpupool.submit_time", "1970-01-01T00:16:40.25Z"},
                      {"gpupool.server", "pool:8001"},
                      {"gpupool.model", "digits-large"},
                      {"mlflow.source.name", "gpupool"},
                      {"mlflow.source.type", "JOB"}}));
  EXPECT_EQ(fake_.Of("runs/log-batch")[0].body["params"][0],
            (Json{{"key", "name"}, {"value", "digits"}}));
}

TEST_F(MlflowRunTest, CreatesTheExperimentIfThereIsNone) {
  FakeTracking empty;
  TrackingServer server(
      {.url = *ParseTrackingUrl(empty.url()), .timeout = kPatience});
  empty.Give(
      "experiments/get-by-name",
      {.status = 404, .body = TrackingErrorBody("RESOURCE_DOES_NOT_EXIST")});
  empty.Give("experiments/create", {.body = R"({"experiment_id": "9"})"});
  empty.Give("runs/search", {});
  empty.Give("runs/create", {.body = R"({"run": {"info": {"run_id": "r"}}})"});
  empty.Give("runs/log-batch", {});
  const auto run =
      MlflowRun::Open(server, job_, {.experiment = "new", .server = ""}, {});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->experiment_id(), "9");
  EXPECT_EQ(empty.Of("experiments/create")[0].body, (Json{{"name", "new"}}));
}

TEST_F(MlflowRunTest, TakesTheExperimentThatAnotherClientCreatedMeanwhile) {
  fake_.Give(
      "experiments/get-by-name",
      {.status = 404, .body = TrackingErrorBody("RESOURCE_DOES_NOT_EXIST")});
  fake_.Give(
      "experiments/create",
      {.status = 400, .body = TrackingErrorBody("RESOURCE_ALREADY_EXISTS")});
  HaveNoRun();
  const auto run = Open();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->experiment_id(), "3");
}

TEST_F(MlflowRunTest, RefusesAnExperimentThatWasDeleted) {
  fake_.Give("experiments/get-by-name",
             {.body = R"({"experiment": {"experiment_id": "3",
                                         "lifecycle_stage": "deleted"}})"});
  const auto run = Open();
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(run.status().message()),
              HasSubstr("'a b' was deleted in MLflow; restore it"));
}

TEST_F(MlflowRunTest, ContinuesARunAndSendsOnlyWhatItDoesNotHave) {
  HaveRun({{"info", {{"run_id", "r1"}, {"status", "RUNNING"}}},
           {"data",
            {{"metrics", Json::array({{{"key", "a"}, {"step", 20}}})},
             {"params", Json::array({{{"key", "name"}, {"value", "x"}}})}}}});
  fake_.Give("runs/log-batch", {});
  auto run = Open();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(fake_.Count("runs/create"), 0u);
  EXPECT_EQ(fake_.Count("runs/log-batch"), 0u);  // it has the params
  EXPECT_TRUE(
      run->Log({Point("a", 10), Point("a", 20), Point("b", 20), Point("a", 30)})
          .ok());
  EXPECT_THAT(Sent(0), ElementsAre("b:20", "a:30"));
  EXPECT_EQ(run->count(), 2u);
  EXPECT_THAT(run->metrics(), ElementsAre("a", "b"));
  // Nothing is left to send.
  EXPECT_TRUE(run->Log({Point("a", 30), Point("b", 20)}).ok());
  EXPECT_EQ(fake_.Count("runs/log-batch"), 1u);
}

TEST_F(MlflowRunTest, AStepThatIsRepeatedKeepsItsFirstValue) {
  HaveNoRun();
  auto run = Open();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(
      run->Log({Point("a", 0), Point("a", 40), Point("a", 30), Point("a", 50)})
          .ok());
  EXPECT_THAT(Sent(1), ElementsAre("a:0", "a:40", "a:50"));
}

TEST_F(MlflowRunTest, ReadsTheRunBeforeItSendsAgain) {
  HaveNoRun();
  auto run = Open(kPatience);
  ASSERT_TRUE(run.ok()) << run.status();
  const size_t calls = fake_.Count("runs/log-batch");
  // The call fails, but the server has stored its first point.
  fake_.Give("runs/log-batch", {.status = 500});
  fake_.Give("runs/log-batch", {});
  fake_.Give("runs/get", {.status = 503});
  fake_.Give("runs/get", {.body = R"({"run": {"info": {"run_id": "r1"},
      "data": {"metrics": [{"key": "a", "step": 10}]}}})"});
  // Takes the answer that was left from the params.
  ASSERT_TRUE(run->Log({Point("c", 1)}).ok());
  ASSERT_TRUE(run->Log({Point("a", 10), Point("a", 20)}).ok());
  EXPECT_THAT(Sent(calls + 1), ElementsAre("a:10", "a:20"));
  EXPECT_THAT(Sent(calls + 2), ElementsAre("a:20"));
  EXPECT_EQ(fake_.Count("runs/get"), 2u);
  EXPECT_EQ(run->count(), 3u);
}

TEST_F(MlflowRunTest, TriesOnlyAsLongAsItsPatience) {
  HaveNoRun();
  auto run = Open();
  ASSERT_TRUE(run.ok()) << run.status();
  fake_.Give("runs/log-batch", {.status = 500});
  EXPECT_TRUE(run->Log({Point("a", 1)}).ok());
  const absl::Status status = run->Log({Point("a", 2)});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(run->count(), 1u);
}

TEST_F(MlflowRunTest, ACreationThatFailedIsSearchedForBeforeTheNext) {
  HaveExperiment();
  fake_.Give("runs/search", {});
  fake_.Give("runs/search",
             {.body = R"({"runs": [{"info": {"run_id": "r5"}}]})"});
  fake_.Give("runs/create", {.status = 502});
  fake_.Give("runs/log-batch", {});
  const auto run = Open(kPatience);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->id(), "r5");
  EXPECT_EQ(fake_.Count("runs/create"), 1u);
}

TEST_F(MlflowRunTest, ParamsGoInCallsOfAtMostAHundred) {
  HaveNoRun();
  for (size_t i = 0; i < kMostParamsPerCall; ++i) {
    job_.mutable_spec()->mutable_model()->add_layers()->mutable_flatten();
  }
  ASSERT_TRUE(Open().ok());
  const auto calls = fake_.Of("runs/log-batch");
  ASSERT_EQ(calls.size(), 2u);  // the layers and the name
  EXPECT_EQ(calls[0].body["params"].size(), kMostParamsPerCall);
  EXPECT_EQ(calls[1].body["params"].size(), 1u);
}

TEST_F(MlflowRunTest, SetsAStatusThatTheRunDoesNotHave) {
  HaveNoRun();
  fake_.Give("runs/update", {});
  auto run = Open();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->SetStatus("RUNNING", std::nullopt).ok());
  EXPECT_EQ(fake_.Count("runs/update"), 0u);
  EXPECT_TRUE(run->SetStatus("FINISHED", absl::FromUnixSeconds(2)).ok());
  EXPECT_TRUE(run->SetStatus("FINISHED", absl::FromUnixSeconds(2)).ok());
  ASSERT_EQ(fake_.Count("runs/update"), 1u);
  EXPECT_EQ(
      fake_.Of("runs/update")[0].body,
      (Json{{"run_id", "r1"}, {"status", "FINISHED"}, {"end_time", 2000}}));
}

}  // namespace
}  // namespace gpupool::client
