#include "client/cli/mlflow/run_messages.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace gpupool::client {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Json Parsed(const char* text) { return Json::parse(text); }

template <typename T>
std::string AnswerError(const absl::StatusOr<T>& read) {
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInternal);
  return std::string(read.status().message());
}

TEST(RunMessagesTest, ANewExperimentHasAName) {
  EXPECT_EQ(CreateExperimentBody("a \"b\""), Parsed(R"({"name":"a \"b\""})"));
}

TEST(RunMessagesTest, ARunIsSearchedByItsTags) {
  EXPECT_EQ(SearchRunsBody("7", {{"gpupool.job_id", "3"}, {"b", "x y"}}),
            Parsed(R"({
              "experiment_ids": ["7"],
              "filter": "tags.`gpupool.job_id` = '3' and tags.`b` = 'x y'",
              "run_view_type": "ACTIVE_ONLY",
              "max_results": 1,
              "order_by": ["attributes.start_time ASC"]})"));
}

TEST(RunMessagesTest, ANewRunHasNameStartAndTags) {
  EXPECT_EQ(CreateRunBody("7", {.name = "digits",
                                .start = absl::FromUnixMillis(1500),
                                .tags = {{"a", "1"}, {"b", "2"}}}),
            Parsed(R"({
              "experiment_id": "7", "run_name": "digits", "start_time": 1500,
              "tags": [{"key": "a", "value": "1"},
                       {"key": "b", "value": "2"}]})"));
  EXPECT_EQ(CreateRunBody("7", {})["tags"], Json::array());
}

TEST(RunMessagesTest, AMetricHasValueTimeAndStep) {
  const std::vector<MetricPoint> points = {
      {.key = "loss/training",
       .value = 0.25,
       .step = 20,
       .time = absl::FromUnixMillis(1234567890123)},
      {.key = "b", .value = 3, .step = 0, .time = absl::UnixEpoch()}};
  const Json body = LogMetricsBody("r1", points);
  EXPECT_EQ(body, Parsed(R"({
    "run_id": "r1",
    "metrics": [
      {"key": "loss/training", "value": 0.25, "timestamp": 1234567890123,
       "step": 20},
      {"key": "b", "value": 3.0, "timestamp": 0, "step": 0}]})"));
  EXPECT_TRUE(body["metrics"][0]["step"].is_number_integer());
  EXPECT_TRUE(body["metrics"][0]["timestamp"].is_number_integer());
}

TEST(RunMessagesTest, NumbersThatAreNotFiniteAreTexts) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<MetricPoint> points = {{.key = "a", .value = std::nan("")},
                                           {.key = "b", .value = infinity},
                                           {.key = "c", .value = -infinity}};
  const Json body = LogMetricsBody("r1", points);
  EXPECT_EQ(body["metrics"][0]["value"], "NaN");
  EXPECT_EQ(body["metrics"][1]["value"], "Infinity");
  EXPECT_EQ(body["metrics"][2]["value"], "-Infinity");
}

TEST(RunMessagesTest, ParamsAreKeysAndTexts) {
  const KeyValues params = {{"training.seed", "1"}};
  EXPECT_EQ(LogParamsBody("r1", params), Parsed(R"({
    "run_id": "r1", "params": [{"key": "training.seed", "value": "1"}]})"));
}

TEST(RunMessagesTest, OnlyARunThatEndsHasAnEnd) {
  EXPECT_EQ(UpdateRunBody("r1", "RUNNING", std::nullopt),
            Parsed(R"({"run_id": "r1", "status": "RUNNING"})"));
  EXPECT_EQ(
      UpdateRunBody("r1", "FAILED", absl::FromUnixMillis(1500)),
      Parsed(R"({"run_id": "r1", "status": "FAILED", "end_time": 1500})"));
}

TEST(RunMessagesTest, ReadsExperiments) {
  const auto experiment = ReadExperiment(Parsed(
      R"({"experiment": {"experiment_id": "7", "name": "x",
                         "lifecycle_stage": "active", "new_field": []}})"));
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  EXPECT_EQ(experiment->id, "7");
  EXPECT_FALSE(experiment->deleted);
  EXPECT_TRUE(ReadExperiment(Parsed(R"({"experiment": {"experiment_id": "7",
                                   "lifecycle_stage": "deleted"}})"))
                  ->deleted);
  EXPECT_EQ(*ReadExperimentId(Parsed(R"({"experiment_id": "8"})")), "8");
  for (const char* text : {"{}", "[]", "null", R"({"experiment": 1})",
                           R"({"experiment": {"experiment_id": 7}})"}) {
    EXPECT_THAT(AnswerError(ReadExperiment(Parsed(text))),
                HasSubstr("experiment.experiment_id"));
    EXPECT_THAT(AnswerError(ReadExperimentId(Parsed(text))),
                HasSubstr("experiment_id"));
  }
}

TEST(RunMessagesTest, ReadsTheLastStepOfEachMetricAndTheParams) {
  const auto run = ReadRun(Parsed(R"({"run": {
      "info": {"run_id": "r1", "status": "RUNNING"},
      "data": {
        "metrics": [{"key": "a", "value": 1.5, "timestamp": 5, "step": 20},
                    {"key": "b", "value": "NaN", "step": "9000000000"},
                    {"key": "c", "value": 0}],
        "params": [{"key": "p", "value": ""}, {"key": "q", "value": "1"}]}}})"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->id, "r1");
  EXPECT_EQ(run->status, "RUNNING");
  EXPECT_THAT(run->last_steps,
              ElementsAre(Pair("a", 20), Pair("b", 9000000000), Pair("c", 0)));
  EXPECT_THAT(run->params, ElementsAre("p", "q"));
}

TEST(RunMessagesTest, ANewRunMayHaveNoData) {
  const auto run = ReadRun(Parsed(R"({"run": {"info": {"run_id": "r1"}}})"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->last_steps.empty());
  EXPECT_TRUE(run->params.empty());
}

TEST(RunMessagesTest, RefusesRunsOfAnotherForm) {
  EXPECT_THAT(AnswerError(ReadRun(Parsed("{}"))), HasSubstr("run.info.run_id"));
  EXPECT_THAT(
      AnswerError(ReadRun(Parsed(R"({"run": {"info": {"run_id": 1}}})"))),
      HasSubstr("run.info.run_id"));
  const auto with_data = [](const char* data) {
    Json answer = Parsed(R"({"run": {"info": {"run_id": "r1"}}})");
    answer["run"]["data"] = Parsed(data);
    return AnswerError(ReadRun(answer));
  };
  EXPECT_THAT(with_data(R"({"metrics": {}})"), HasSubstr("run.data.metrics"));
  EXPECT_THAT(with_data(R"({"metrics": [{"step": 1}]})"), HasSubstr("key"));
  EXPECT_THAT(with_data(R"({"metrics": [{"key": "a", "step": "x"}]})"),
              HasSubstr("step"));
  EXPECT_THAT(with_data(R"({"metrics": [{"key": "a", "step": 1.5}]})"),
              HasSubstr("step"));
  EXPECT_THAT(with_data(R"({"params": 1})"), HasSubstr("run.data.params"));
  EXPECT_THAT(with_data(R"({"params": [7]})"), HasSubstr("params.key"));
}

TEST(RunMessagesTest, ASearchMayFindNothing) {
  for (const char* text : {"{}", R"({"runs": []})"}) {
    const auto found = ReadFoundRun(Parsed(text));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->has_value());
  }
  const auto found = ReadFoundRun(Parsed(
      R"({"runs": [{"info": {"run_id": "r1"}}, {"info": {"run_id": "r2"}}]})"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->id, "r1");
  EXPECT_THAT(AnswerError(ReadFoundRun(Parsed(R"({"runs": {}})"))),
              HasSubstr("runs"));
}

}  // namespace
}  // namespace gpupool::client
