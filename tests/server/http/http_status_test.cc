#include "server/http/http_status.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(HttpStatusTest, EveryCodeHasTheUsualStatus) {
  const std::pair<absl::StatusCode, int> rows[] = {
      {absl::StatusCode::kOk, 200},
      {absl::StatusCode::kCancelled, 499},
      {absl::StatusCode::kUnknown, 500},
      {absl::StatusCode::kInvalidArgument, 400},
      {absl::StatusCode::kDeadlineExceeded, 504},
      {absl::StatusCode::kNotFound, 404},
      {absl::StatusCode::kAlreadyExists, 409},
      {absl::StatusCode::kPermissionDenied, 403},
      {absl::StatusCode::kResourceExhausted, 429},
      {absl::StatusCode::kFailedPrecondition, 400},
      {absl::StatusCode::kAborted, 409},
      {absl::StatusCode::kOutOfRange, 400},
      {absl::StatusCode::kUnimplemented, 501},
      {absl::StatusCode::kInternal, 500},
      {absl::StatusCode::kUnavailable, 503},
      {absl::StatusCode::kDataLoss, 500},
      {absl::StatusCode::kUnauthenticated, 401}};
  for (const auto& [code, status] : rows) {
    EXPECT_EQ(HttpStatusOf(code), status) << code;
  }
}

TEST(HttpStatusTest, ErrorsHaveTheNameOfTheCode) {
  EXPECT_EQ(StatusJson(absl::StatusCode::kNotFound, "no \"job\" 7"),
            R"({"code":"NOT_FOUND","message":"no \"job\" 7"})");
}

TEST(HttpStatusTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(StatusJson(absl::StatusCode::kInternal, "\xff"),
            "{\"code\":\"INTERNAL\",\"message\":\"\xEF\xBF\xBD\"}");
}

TEST(ErrorAnswerTest, TheCodeDecidesTheStatusUnlessOneIsGiven) {
  const absl::Status error = absl::ResourceExhaustedError("too many");
  EXPECT_EQ(ErrorAnswer(error).status, 429);
  EXPECT_EQ(ErrorAnswer(error, 413).status, 413);
  EXPECT_EQ(ErrorAnswer(error).body, R"({"error":"too many"})");
}

}  // namespace
}  // namespace gpupool::server
