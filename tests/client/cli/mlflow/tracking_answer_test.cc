#include "client/cli/mlflow/tracking_answer.h"

#include <gmock/gmock.h>

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<nlohmann::json> Read(int http_status, std::string body,
                                    std::string location = "") {
  return ReadAnswer({.server = "http://tracker:5000",
                     .call = "runs/create",
                     .http_status = http_status,
                     .location = std::move(location),
                     .body = std::move(body)});
}

void ExpectError(const absl::StatusOr<nlohmann::json>& read,
                 absl::StatusCode code, const std::string& text) {
  EXPECT_EQ(read.status().code(), code);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr(text));
}

std::string MlflowError(const std::string& code) {
  return nlohmann::json{{"error_code", code}, {"message", "the reason"}}.dump();
}

TEST(TrackingAnswerTest, AnObjectIsTheAnswer) {
  const auto read = Read(200, R"({"a": 1})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)["a"], 1);
  EXPECT_TRUE(Read(200, "{}").ok());
}

TEST(TrackingAnswerTest, OtherServersAreNoTrackingServers) {
  for (const char* body : {"", "[]", "<html>", "{"}) {
    ExpectError(Read(200, body), absl::StatusCode::kInvalidArgument,
                "no MLflow tracking server at http://tracker:5000: its answer "
                "to runs/create is no JSON");
  }
  ExpectError(Read(404, "<html>404</html>"), absl::StatusCode::kInvalidArgument,
              "does not know runs/create (HTTP 404); check the host");
  ExpectError(Read(405, "{}"), absl::StatusCode::kInvalidArgument,
              "does not know runs/create (HTTP 405); check the host");
  ExpectError(Read(404, MlflowError("ENDPOINT_NOT_FOUND")),
              absl::StatusCode::kInvalidArgument, "no MLflow tracking server");
  ExpectError(Read(308, "", "https://tracker/\x1b"),
              absl::StatusCode::kInvalidArgument,
              "it redirects to https://tracker/\\x1b; check");
  ExpectError(Read(204, ""), absl::StatusCode::kInvalidArgument, "HTTP 204");
}

TEST(TrackingAnswerTest, MlflowsCodesHaveTheirOwnStatus) {
  const auto read = Read(404, MlflowError("RESOURCE_DOES_NOT_EXIST"));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(read.status().message(),
            "MLflow at http://tracker:5000 refuses runs/create: "
            "RESOURCE_DOES_NOT_EXIST: the reason (HTTP 404); it may have been "
            "deleted, then repeat the command for a new run");
  ExpectError(Read(400, MlflowError("RESOURCE_ALREADY_EXISTS")),
              absl::StatusCode::kAlreadyExists, "--experiment");
  ExpectError(Read(400, MlflowError("INVALID_PARAMETER_VALUE")),
              absl::StatusCode::kInvalidArgument,
              "INVALID_PARAMETER_VALUE: the reason (HTTP 400); correct");
  ExpectError(Read(400, MlflowError("INVALID_STATE")),
              absl::StatusCode::kFailedPrecondition, "INVALID_STATE");
}

TEST(TrackingAnswerTest, RefusedUsersAreToldWhatToSet) {
  ExpectError(Read(401, "You are not authenticated."),
              absl::StatusCode::kUnauthenticated,
              "refuses runs/create: You are not authenticated. (HTTP 401); set "
              "MLFLOW_TRACKING_USERNAME");
  ExpectError(Read(403, "Permission denied"),
              absl::StatusCode::kPermissionDenied, "permission to write");
}

TEST(TrackingAnswerTest, ServersInTroubleAreTriedAgain) {
  for (const int http : {429, 500, 502, 503, 504}) {
    ExpectError(Read(http, "<html>trouble</html>"),
                absl::StatusCode::kUnavailable, "repeat the command later");
  }
  ExpectError(Read(503, MlflowError("TEMPORARILY_UNAVAILABLE")),
              absl::StatusCode::kUnavailable, "the reason");
}

TEST(TrackingAnswerTest, PagesAreNotPrintedAndLongTextsAreCut) {
  EXPECT_EQ(Read(413, "<html>large</html>").status().message(),
            "MLflow at http://tracker:5000 refuses runs/create: (HTTP 413); "
            "the log of MLflow, or of a proxy before it, says more");
  const std::string message(
      Read(413, std::string(1000, 'x')).status().message());
  EXPECT_THAT(message, AllOf(HasSubstr(std::string(400, 'x') + "... (HTTP"),
                             Not(HasSubstr(std::string(401, 'x')))));
}

TEST(TrackingAnswerTest, ForeignTextsMoveNoCursor) {
  EXPECT_THAT(std::string(Read(400, "a\x1b[2J").status().message()),
              HasSubstr("a\\x1b[2J"));
}

TEST(TrackingAnswerTest, FieldsOfAnErrorMayHaveAnyType) {
  ExpectError(Read(400, R"({"error_code": 7, "message": []})"),
              absl::StatusCode::kFailedPrecondition, "HTTP 400");
}

}  // namespace
}  // namespace gpupool::client
