#include "server/http/port/router.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using Parts = std::vector<std::string>;

TEST(MatchPathTest, StarsAreThePartsThatAPatternLeavesOpen) {
  EXPECT_EQ(MatchPath("/v2/models/*/versions/*/infer",
                      "/v2/models/a/versions/3/infer"),
            Parts({"a", "3"}));
  EXPECT_EQ(MatchPath("/v2", "/v2"), Parts());
  EXPECT_EQ(MatchPath("/", "/"), Parts());
  EXPECT_EQ(MatchPath("/web/**", "/web/a/b.js"), Parts({"a/b.js"}));
  EXPECT_EQ(MatchPath("/web/**", "/web//etc"), Parts({"/etc"}));
  EXPECT_EQ(MatchPath("/m/*", "/m/a\nb"), Parts({"a\nb"}));
}

TEST(MatchPathTest, OtherPathsDoNotFit) {
  const std::pair<const char*, const char*> rows[] = {
      {"/v2", "/v2/"},
      {"/v2/", "/v2"},
      {"/v2", "/v2x"},
      {"/v2", "/v2/models"},
      {"/v2/models/*", "/v2"},
      {"/v2/models/*", "/v2/models"},
      {"/m/*", "/m/"},
      {"/m/*", "/m/a/"},
      {"/m/*/infer", "/m//infer"},
      {"/web/**", "/web/"},
      {"/web/**", "/web"},
      {"/", "//"},
      {"/", ""},
      {"/v2", "v2"}};
  for (const auto& [pattern, path] : rows) {
    EXPECT_FALSE(MatchPath(pattern, path).has_value())
        << pattern << " " << path;
  }
}

HttpRouter MakeRouter() {
  HttpRouter router({.pattern = "other", .error = [](const absl::Status&, int) {
                       return JsonAnswer(400, "router");
                     }});
  router.Add({.method = "GET", .pattern = "/models/stats"});
  router.Add({.method = "GET", .pattern = "/models/*"});
  router.Add({.method = "POST", .pattern = "/models/*"});
  router.Add({.method = "POST", .pattern = "/call"});
  return router;
}

TEST(RouterTest, TheFirstRouteThatFitsIsTaken) {
  const HttpRouter router = MakeRouter();
  EXPECT_EQ(router.Find("GET", "/models/stats").route->pattern,
            "/models/stats");
  const HttpRouter::Match match = router.Find("GET", "/models/a");
  EXPECT_EQ(match.route->pattern, "/models/*");
  EXPECT_EQ(match.parts, Parts({"a"}));
  EXPECT_EQ(router.Find("POST", "/models/a").route->method, "POST");
}

TEST(RouterTest, HeadTakesTheRoutesOfGet) {
  EXPECT_EQ(MakeRouter().Find("HEAD", "/models/a").route->method, "GET");
}

TEST(RouterTest, OtherRequestsTakeTheOtherRoute) {
  const HttpRouter router = MakeRouter();
  for (const char* method : {"PUT", "get", "OPTIONS", ""}) {
    EXPECT_EQ(router.Find(method, "/models/a").route, &router.other());
  }
  EXPECT_EQ(router.Find("GET", "/nowhere").route, &router.other());
}

TEST(RouterTest, AWrongMethodIsToldThoseOfThePath) {
  const HttpRouter router = MakeRouter();
  EXPECT_EQ(router.Find("PUT", "/models/a").allow, "GET, HEAD, POST");
  EXPECT_EQ(router.Find("PUT", "/models/stats").allow, "GET, HEAD, POST");
  const HttpRouter::Match call = router.Find("GET", "/call");
  EXPECT_EQ(call.allow, "POST");
  EXPECT_EQ(call.route, &router.other());
  ASSERT_NE(call.other_method, nullptr);
  EXPECT_EQ(call.other_method->pattern, "/call");
  for (const auto& [method, path] :
       {std::pair("GET", "/models/a"), std::pair("HEAD", "/models/a"),
        std::pair("PUT", "/nowhere")}) {
    EXPECT_EQ(router.Find(method, path).allow, "") << method;
    EXPECT_EQ(router.Find(method, path).other_method, nullptr) << method;
  }
}

TEST(RouterTest, RoutesWithoutErrorsHaveThoseOfTheRouter) {
  const HttpRouter router = MakeRouter();
  const HttpRoute* route = router.Find("GET", "/models/a").route;
  EXPECT_EQ(route->error(absl::InternalError(""), 0).body, "router");
}

HttpRouter MakeGuardedRouter() {
  HttpRouter router({.error =
                         [](const absl::Status& error, int) {
                           return JsonAnswer(
                               absl::IsUnauthenticated(error) ? 401 : 403,
                               "router");
                         }},
                    [](const HttpRoute& route, const HttpRequest& request) {
                      if (route.calls == kOpenToAll) return absl::OkStatus();
                      return request.Header("Authorization").empty()
                                 ? absl::UnauthenticatedError("")
                                 : absl::PermissionDeniedError("");
                    });
  router.Add({.method = "GET", .pattern = "/open", .calls = kOpenToAll});
  router.Add(
      {.method = "GET",
       .pattern = "/busy",
       .calls = kOpenToAll,
       .refuse = [](const HttpRequest&) { return JsonAnswer(503, ""); }});
  router.Add(
      {.method = "GET",
       .pattern = "/shut",
       .calls = "/S/M",
       .refuse = [](const HttpRequest&) { return JsonAnswer(503, ""); }});
  return router;
}

TEST(RouterTest, TheGuardIsAskedBeforeTheRoute) {
  const HttpRouter router = MakeGuardedRouter();
  EXPECT_FALSE(router.Find("GET", "/open").route->refuse({}).has_value());
  EXPECT_EQ(router.Find("GET", "/busy").route->refuse({})->status, 503);
  const auto refused = router.Find("HEAD", "/shut").route->refuse({});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 401);
  ASSERT_EQ(refused->headers.size(), 2u);
  EXPECT_EQ(refused->headers[1].name, "WWW-Authenticate");
  EXPECT_EQ(refused->headers[1].value, "Bearer realm=\"gpupool\"");
}

TEST(RouterTest, OnlyAMissingTokenIsAskedFor) {
  const HttpRouter router = MakeGuardedRouter();
  HttpRequest request;
  request.headers = {{"authorization", "Bearer x"}};
  const auto refused = router.Find("GET", "/shut").route->refuse(request);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(refused->headers.size(), 1u);
}

}  // namespace
}  // namespace gpupool::server
