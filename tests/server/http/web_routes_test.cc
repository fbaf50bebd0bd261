#include "server/http/web_routes.h"

#include <httplib.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/port/http_port.h"
#include "server/http/web_files.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WebRoutesTest : public ::testing::Test {
 protected:
  WebRoutesTest() {
    const ErrorWriter error = [](const absl::Status&, int status) {
      return JsonAnswer(status, "{}");
    };
    HttpRouter router({.answer =
                           [error](HttpRequest&) {
                             return error(absl::NotFoundError(""), 404);
                           },
                       .error = error});
    AddWebRoutes(&router);
    port_ = *HttpPort::Start({}, std::move(router));
  }

  httplib::Result Get(const std::string& path,
                      const httplib::Headers& headers = {}) {
    return httplib::Client("127.0.0.1", port_->port()).Get(path, headers);
  }

  std::unique_ptr<HttpPort> port_;
};

TEST_F(WebRoutesTest, TheRootIsThePage) {
  const httplib::Result answer = Get("/");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("Content-Type"),
            "text/html; charset=utf-8");
  EXPECT_THAT(answer->body, AllOf(HasSubstr("/web/vendor/uPlot.iife.min.js"),
                                  HasSubstr("/web/main.js")));
}

TEST_F(WebRoutesTest, EveryFileIsServedWithItsBytesAndType) {
  ASSERT_GT(WebFiles().size(), 10u);
  for (const WebFile& file : WebFiles()) {
    const httplib::Result answer = Get(absl::StrCat("/web/", file.name));
    ASSERT_TRUE(answer) << file.name;
    EXPECT_EQ(answer->status, 200) << file.name;
    EXPECT_EQ(answer->body, file.bytes) << file.name;
    EXPECT_EQ(answer->get_header_value("Content-Type"),
              ContentTypeOf(file.name));
  }
}

TEST_F(WebRoutesTest, ThePageMayLoadNothingFromOtherHosts) {
  for (const char* path : {"/", "/web/main.js"}) {
    const httplib::Result answer = Get(path);
    ASSERT_TRUE(answer);
    EXPECT_THAT(
        answer->get_header_value("Content-Security-Policy"),
        AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'self'"),
              Not(HasSubstr("unsafe")), HasSubstr("frame-ancestors 'none'")));
    EXPECT_EQ(answer->get_header_value("X-Content-Type-Options"), "nosniff");
  }
  for (const WebFile& file : WebFiles()) {
    if (absl::StartsWith(file.name, "vendor/") ||
        absl::EndsWith(file.name, ".svg")) {
      continue;  // comments and names of formats have addresses
    }
    EXPECT_THAT(
        absl::StrReplaceAll(file.bytes, {{"http://www.w3.org/2000/svg", ""}}),
        Not(HasSubstr("://")))
        << file.name;
  }
}

TEST_F(WebRoutesTest, AFileThatTheBrowserHasIsNotSentAgain) {
  const httplib::Result first = Get("/web/main.js");
  ASSERT_TRUE(first);
  const std::string tag = first->get_header_value("ETag");
  ASSERT_THAT(tag, StartsWith("\""));
  const httplib::Result again = Get("/web/main.js", {{"If-None-Match", tag}});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->status, 304);
  EXPECT_EQ(again->body, "");
  const httplib::Result other =
      Get("/web/main.js", {{"If-None-Match", "\"other\""}});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->status, 200);
}

TEST_F(WebRoutesTest, HeadTellsTheLengthOfAFile) {
  const httplib::Result answer =
      httplib::Client("127.0.0.1", port_->port()).Head("/web/main.js");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "");
  EXPECT_EQ(answer->get_header_value("Content-Length"),
            std::to_string(Get("/web/main.js")->body.size()));
}

TEST_F(WebRoutesTest, NothingElseCanBeRead) {
  for (const char* path : {"/web/no.js", "/web/../http_server.cc",
                           "/web/%2e%2e/web_files.h", "/web//etc/passwd"}) {
    const httplib::Result answer = Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 404) << path;
  }
}

TEST_F(WebRoutesTest, TheLibrariesBringTheirLicences) {
  std::set<absl::string_view> names;
  for (const WebFile& file : WebFiles()) names.insert(file.name);
  EXPECT_TRUE(names.contains("vendor/uPlot.iife.min.js"));
  EXPECT_TRUE(names.contains("vendor/uPlot.LICENSE"));
}

TEST(ContentTypeOfTest, GoesByTheEndOfTheName) {
  EXPECT_EQ(ContentTypeOf("a.css"), "text/css; charset=utf-8");
  EXPECT_EQ(ContentTypeOf("pages/a.js"), "text/javascript; charset=utf-8");
  EXPECT_EQ(ContentTypeOf("js"), "text/plain; charset=utf-8");
}

}  // namespace
}  // namespace gpupool::server
