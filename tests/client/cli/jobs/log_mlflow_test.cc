// gpupool logs --mlflow: what it sends, says and refuses.
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "tests/client/cli/command_test_base.h"
#include "tests/client/testing/fake_tracking.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LogMlflowTest : public CommandTest {
 protected:
  LogMlflowTest() {
    AddJob(7, "digits", v1::SUCCEEDED);
    SetEvents({StateEvent(1, v1::RUNNING), StepAt(2, 20), StepAt(3, 40),
               LogEvent(4, "compiled"), StepAt(5, 30),
               EndAt(6, v1::SUCCEEDED)});
    tracking_.Give("experiments/get-by-name",
                   {.body = R"({"experiment": {"experiment_id": "3"}})"});
    tracking_.Give("runs/search", {});
    tracking_.Give("runs/create", {.body = R"({"run": {"info": {"run_id": "r1",
                                                 "status": "RUNNING"}}})"});
    tracking_.Give("runs/log-batch", {});
    tracking_.Give("runs/update", {});
  }

  void SetEvents(std::vector<v1::JobEvent> events) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[7] = std::move(events);
  }

  static v1::JobEvent StepAt(uint64_t sequence, uint64_t step) {
    v1::JobEvent event = ProgressEvent(sequence, step, 100);
    event.mutable_time()->set_seconds(static_cast<int64_t>(1000 + sequence));
    return event;
  }
  static v1::JobEvent EndAt(uint64_t sequence, v1::JobState state) {
    v1::JobEvent event = StateEvent(sequence, state);
    event.mutable_time()->set_seconds(static_cast<int64_t>(1000 + sequence));
    return event;
  }

  // Returns the metrics of all calls in their order.
  nlohmann::json Metrics() const {
    nlohmann::json metrics = nlohmann::json::array();
    for (const auto& call : tracking_.Of("runs/log-batch")) {
      for (const auto& metric : call.body.value("metrics", nlohmann::json())) {
        metrics.push_back(metric);
      }
    }
    return metrics;
  }
  // Returns the steps of a metric in their order.
  std::vector<uint64_t> Steps(const std::string& key) const {
    std::vector<uint64_t> steps;
    for (const auto& metric : Metrics()) {
      if (metric["key"] == key) steps.push_back(metric["step"]);
    }
    return steps;
  }

  FakeTracking tracking_;
};

TEST_F(LogMlflowTest, SendsTheCurvesAndTheEndOfAJob) {
  EXPECT_EQ(Run({"logs", "digits", "--mlflow", tracking_.url()}), 0) << err();
  EXPECT_EQ(out(),
            "sent 6 new points of 3 metrics to run r1 of experiment gpupool; "
            "see them at " +
                tracking_.url() + "/#/experiments/3/runs/r1\n");
  EXPECT_EQ(err(), "");
  EXPECT_THAT(tracking_.Of("experiments/get-by-name")[0].target,
              HasSubstr("experiment_name=gpupool"));
  EXPECT_THAT(Steps("loss/training"), ElementsAre(20, 40));
  EXPECT_EQ(Metrics()[0], (nlohmann::json{{"key", "loss/training"},
                                          {"value", 0.25},
                                          {"timestamp", 1002000},
                                          {"step", 20}}));
  ASSERT_EQ(tracking_.Count("runs/update"), 1u);
  EXPECT_EQ(
      tracking_.Of("runs/update")[0].body,
      (nlohmann::json{
          {"run_id", "r1"}, {"status", "FINISHED"}, {"end_time", 1006000}}));
}

TEST_F(LogMlflowTest, SaysInJsonWhatItSent) {
  EXPECT_EQ(Run({"logs", "7", "--mlflow", tracking_.url(), "--experiment", "x",
                 "-o", "json"}),
            0);
  const auto said = nlohmann::json::parse(out());
  EXPECT_EQ(said["run_id"], "r1");
  EXPECT_EQ(said["experiment_id"], "3");
  EXPECT_EQ(said["url"], tracking_.url() + "/#/experiments/3/runs/r1");
  EXPECT_EQ(said["points"], 6);
  EXPECT_EQ(said["metrics"].size(), 3u);
  EXPECT_THAT(tracking_.Of("experiments/get-by-name")[0].target,
              HasSubstr("experiment_name=x"));
}

TEST_F(LogMlflowTest, TheStatusIsThatOfTheJob) {
  SetEvents({EndAt(1, v1::FAILED)});
  EXPECT_EQ(Run({"logs", "7", "--mlflow", tracking_.url()}), 0);
  SetEvents({EndAt(1, v1::CANCELLED)});
  EXPECT_EQ(Run({"logs", "7", "--mlflow", tracking_.url()}), 0);
  ASSERT_EQ(tracking_.Count("runs/update"), 2u);
  EXPECT_EQ(tracking_.Of("runs/update")[0].body["status"], "FAILED");
  EXPECT_EQ(tracking_.Of("runs/update")[1].body["status"], "KILLED");
}

TEST_F(LogMlflowTest, AJobThatRunsHasARunThatGoesOn) {
  AddJob(7, "digits", v1::RUNNING);
  SetEvents({StateEvent(1, v1::RUNNING), StepAt(2, 20)});
  EXPECT_EQ(Run({"logs", "7", "--mlflow", tracking_.url()}), 0);
  EXPECT_EQ(tracking_.Count("runs/update"), 0u);
  EXPECT_THAT(Steps("loss/training"), ElementsAre(20));
}

TEST_F(LogMlflowTest, FollowsAJobAndSendsBeforeItEnds) {
  AddJob(7, "digits", v1::RUNNING);
  SetEvents({StateEvent(1, v1::RUNNING), StepAt(2, 20), StepAt(3, 40)});
  std::stop_source stop;
  int code = -1;
  std::thread command([&] {
    code =
        Run({"logs", "7", "-f", "--mlflow", tracking_.url()}, stop.get_token());
  });
  EXPECT_TRUE(WaitUntil([&] { return Metrics().size() == 6; }));
  stop.request_stop();
  command.join();
  EXPECT_EQ(code, 130);
  EXPECT_THAT(err(), StartsWith("sending to " + tracking_.url()));
  EXPECT_THAT(out(), HasSubstr("6 new points"));
  EXPECT_EQ(tracking_.Count("runs/update"), 0u);
}

TEST_F(LogMlflowTest, RefusesUrlsAndOptionsThatCannotBeMeant) {
  EXPECT_EQ(Run({"logs", "7", "--mlflow", "sqlite:///runs.db"}), 2);
  EXPECT_THAT(err(), HasSubstr("the scheme 'sqlite'"));
  EXPECT_EQ(Run({"logs", "7", "--mlflow", "localhost:5000"}), 2);
  EXPECT_THAT(err(), HasSubstr("has no scheme"));
  EXPECT_EQ(Run({"logs", "7", "--mlflow", ""}), 2);
  EXPECT_EQ(Run({"logs", "7", "--experiment", "x"}), 2);
  EXPECT_THAT(err(), HasSubstr("--mlflow"));
  EXPECT_EQ(Run({"logs", "7", "--mlflow", tracking_.url(), "--experiment", ""}),
            2);
  EXPECT_EQ(
      Run({"logs", "7", "--mlflow", tracking_.url(), "--tensorboard", "x"}), 2);
  EXPECT_EQ(tracking_.Count("runs/search"), 0u);
}

TEST_F(LogMlflowTest, AsksMlflowNothingAboutAJobThatIsNotThere) {
  EXPECT_EQ(Run({"logs", "99", "--mlflow", tracking_.url()}), 3);
  EXPECT_EQ(tracking_.Count("experiments/get-by-name"), 0u);
}

TEST_F(LogMlflowTest, AServerThatIsNoMlflowIsAUsageError) {
  FakeTracking other;
  EXPECT_EQ(Run({"logs", "7", "--mlflow", other.url()}), 2);
  EXPECT_THAT(err(), HasSubstr("no MLflow tracking server at " + other.url()));
}

TEST_F(LogMlflowTest, ARefusalHasMlflowsWords) {
  FakeTracking other;
  other.Give(
      "experiments/get-by-name",
      {.status = 400, .body = R"({"error_code": "INVALID_PARAMETER_VALUE",
                          "message": "bad name"})"});
  EXPECT_EQ(Run({"logs", "7", "--mlflow", other.url()}), 2);
  EXPECT_THAT(err(), HasSubstr("INVALID_PARAMETER_VALUE: bad name"));
}

TEST_F(LogMlflowTest, ACallThatFailsEndsTheCommand) {
  FakeTracking other;
  other.Give("experiments/get-by-name",
             {.body = R"({"experiment": {"experiment_id": "3"}})"});
  other.Give("runs/search", {.body = R"({"runs": [{"info": {"run_id": "r1"},
                 "data": {"params": [{"key": "name", "value": "digits"}]}}]})"});
  other.Give("runs/log-batch", {.status = 403});
  EXPECT_EQ(Run({"logs", "7", "--mlflow", other.url()}), 4);
  EXPECT_THAT(err(), HasSubstr("refuses runs/log-batch"));
  EXPECT_EQ(out(), "");
  EXPECT_EQ(other.Count("runs/update"), 0u);
}

}  // namespace
}  // namespace gpupool::client
