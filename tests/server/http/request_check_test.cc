#include "server/http/request_check.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(RequestCheckTest, OnlyTheTypeOfJsonIsJson) {
  EXPECT_TRUE(IsJsonType("application/json"));
  EXPECT_TRUE(IsJsonType("Application/JSON; charset=utf-8"));
  EXPECT_TRUE(IsJsonType("application/json ;charset=utf-8"));
  for (const char* type :
       {"", "text/plain", "application/json-patch+json", "json",
        "text/plain;application/json", "multipart/form-data; boundary=x"}) {
    EXPECT_FALSE(IsJsonType(type)) << type;
  }
}

TEST(RequestCheckTest, LoopbackIsAnAddressOrLocalhost) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8000", "127.8.9.1", "localhost",
        "LocalHost:8000", "::1", "[::1]", "[::1]:8000"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "10.0.0.1:8000", "127.evil.example",
                           "::", "127.0.0.1.evil.example:8000",
                           "localhost.evil.example", "[", "[fe80::1]:8000"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(RequestCheckTest, OnlyPagesOfTheServerItselfMayCall) {
  const TrustedHosts loopback = {.loopback_only = true, .names = {}};
  const TrustedHosts named = {.loopback_only = false, .names = {"gpus"}};
  EXPECT_TRUE(CheckOrigin("", "127.0.0.1:8000", loopback).ok());
  EXPECT_TRUE(CheckOrigin("", "", loopback).ok());
  EXPECT_TRUE(CheckOrigin("http://gpus:8000", "GPUs:8000", named).ok());
  for (const TrustedHosts& trusted : {loopback, named}) {
    EXPECT_TRUE(
        CheckOrigin("http://localhost:8000", "localhost:8000", trusted).ok());
  }
  for (const char* origin :
       {"http://evil.example", "http://gpus", "http://gpus:8001", "null",
        "http://gpus:8000.evil.example", "gpus:8000", "file://"}) {
    EXPECT_TRUE(
        absl::IsPermissionDenied(CheckOrigin(origin, "gpus:8000", named)))
        << origin;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(CheckOrigin("null", "", named)));
  EXPECT_THAT(
      std::string(CheckOrigin("http://evil.example", "h:1", named).message()),
      HasSubstr("http://evil.example"));
}

TEST(RequestCheckTest, ANameThatPointsToLoopbackIsNotTrusted) {
  const absl::Status status =
      CheckOrigin("http://evil.example:8000", "evil.example:8000",
                  {.loopback_only = true, .names = {}});
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("use localhost"));
}

TEST(RequestCheckTest, BeyondLoopbackAddressesAndGivenNamesAreTrusted) {
  const TrustedHosts named = {.loopback_only = false,
                              .names = {"gpus", "gpus.lab"}};
  for (const char* host : {"10.0.0.1:8000", "[fe80::1]:8000", "gpus:8000",
                           "GPUS.lab", "127.0.0.1:8000"}) {
    EXPECT_TRUE(CheckOrigin(absl::StrCat("http://", host), host, named).ok())
        << host;
  }
  for (const char* host : {"evil.example:8000", "10.0.0.1.evil.example",
                           "gpus.evil.example:8000", "evil.gpus"}) {
    const absl::Status status =
        CheckOrigin(absl::StrCat("http://", host), host, named);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << host;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--http-names"));
  }
}

TEST(RequestCheckTest, EitherHeaderSetsTheTimeout) {
  const TimeLimits limits = {absl::Minutes(7), absl::Hours(24)};
  EXPECT_EQ(*TimeLimitOf("", "", limits), absl::Minutes(7));
  EXPECT_EQ(*TimeLimitOf("", "1500", limits), absl::Milliseconds(1500));
  const std::pair<const char*, absl::Duration> rows[] = {
      {"24H", absl::Hours(24)},
      {"2M", absl::Minutes(2)},
      {"10S", absl::Seconds(10)},
      {"500m", absl::Milliseconds(500)},
      {"7u", absl::Microseconds(7)},
      {"99999999n", absl::Nanoseconds(99999999)}};
  for (const auto& [text, duration] : rows) {
    EXPECT_EQ(*TimeLimitOf(text, "", limits), duration) << text;
  }
}

TEST(RequestCheckTest, AWrongTimeoutIsNamed) {
  const TimeLimits limits = {absl::Seconds(1), absl::Hours(24)};
  for (const char* text : {"S", "10", "0S", "-1S", "1s", "25H", "123456789n",
                           "1.5S", " 1S", "1 S", "x"}) {
    const auto timeout = TimeLimitOf(text, "", limits);
    EXPECT_TRUE(absl::IsInvalidArgument(timeout.status())) << text;
    EXPECT_THAT(std::string(timeout.status().message()), HasSubstr(text));
  }
  for (const char* text : {"0", "-5", "1s", "86400001", "999999999", "1e3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(TimeLimitOf("", text, limits).status()))
        << text;
  }
  EXPECT_EQ(*TimeLimitOf("", "86400000", limits), absl::Hours(24));
  EXPECT_TRUE(
      absl::IsInvalidArgument(TimeLimitOf("1S", "1000", limits).status()));
}

TEST(RequestCheckTest, ATimeoutIsThereOnce) {
  const TimeLimits limits = {absl::Minutes(7), absl::Hours(24)};
  HttpRequest request;
  EXPECT_EQ(*TimeLimitOf(request, limits), absl::Minutes(7));
  for (const auto& [name, value] :
       {std::pair("X-Timeout-Ms", "1000"), std::pair("grpc-timeout", "1S")}) {
    request.headers = {{name, value}};
    EXPECT_EQ(*TimeLimitOf(request, limits), absl::Seconds(1)) << name;
    request.headers.push_back({absl::AsciiStrToLower(name), value});
    const absl::Status twice = TimeLimitOf(request, limits).status();
    EXPECT_TRUE(absl::IsInvalidArgument(twice)) << twice;
    EXPECT_THAT(std::string(twice.message()),
                HasSubstr(absl::StrCat(name, " is there 2 times")));
  }
}

TEST(RequestCheckTest, ATimeoutAboveTheLongestIsRefusedWithTheLongest) {
  const TimeLimits limits = {absl::Seconds(1), absl::Minutes(10)};
  EXPECT_EQ(*TimeLimitOf("10M", "", limits), absl::Minutes(10));
  EXPECT_EQ(*TimeLimitOf("", "600000", limits), absl::Minutes(10));
  const absl::Status in_grpc = TimeLimitOf("601S", "", limits).status();
  EXPECT_TRUE(absl::IsInvalidArgument(in_grpc)) << in_grpc;
  EXPECT_THAT(std::string(in_grpc.message()), HasSubstr("up to 10M"));
  const absl::Status in_ms = TimeLimitOf("", "600001", limits).status();
  EXPECT_TRUE(absl::IsInvalidArgument(in_ms)) << in_ms;
  EXPECT_THAT(std::string(in_ms.message()), HasSubstr("1 to 600000"));
}

}  // namespace
}  // namespace gpupool::server
