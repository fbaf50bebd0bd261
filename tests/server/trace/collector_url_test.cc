#include "server/trace/collector_url.h"

#include <gmock/gmock.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

std::string Parsed(absl::string_view text) {
  const auto url = ParseCollectorUrl(text);
  return url.ok() ? url->Text() : std::string(url.status().message());
}

TEST(ParseCollectorUrlTest, AddsThePortAndThePath) {
  EXPECT_EQ(Parsed("http://localhost"), "http://localhost:4318/v1/traces");
  EXPECT_EQ(Parsed("https://otel.example:443/"),
            "https://otel.example:443/v1/traces");
  EXPECT_EQ(Parsed("http://h:1/collect"), "http://h:1/collect/v1/traces");
  EXPECT_EQ(Parsed("http://h:1/v1/traces"), "http://h:1/v1/traces");
}

TEST(ParseCollectorUrlTest, KnowsItsParts) {
  const auto url = ParseCollectorUrl("https://[::1]:5000/a");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 5000);
  EXPECT_EQ(url->authority, "[::1]:5000");
  EXPECT_EQ(url->path, "/a/v1/traces");
}

TEST(ParseCollectorUrlTest, SaysWhatIsWrong) {
  EXPECT_THAT(Parsed("localhost:4318"), HasSubstr("http:// or https://"));
  EXPECT_THAT(Parsed("grpc://localhost"), HasSubstr("http:// or https://"));
  EXPECT_THAT(Parsed(""), HasSubstr("http:// or https://"));
  EXPECT_THAT(Parsed("http://"), HasSubstr("names no host"));
  EXPECT_THAT(Parsed("http://:4318"), HasSubstr("names no host"));
  EXPECT_THAT(Parsed("http://h:0"), HasSubstr("1 to 65535"));
  EXPECT_THAT(Parsed("http://h:65536"), HasSubstr("1 to 65535"));
  EXPECT_THAT(Parsed("http://h:"), HasSubstr("1 to 65535"));
  EXPECT_THAT(Parsed("http://[::1"), HasSubstr("closing ]"));
  EXPECT_THAT(Parsed("http://h/?a=b"), HasSubstr("query"));
  EXPECT_THAT(Parsed("http://h/a b"), HasSubstr("space"));
  EXPECT_THAT(Parsed("http://h\r\nX: y"), HasSubstr("space"));
}

TEST(ParseCollectorUrlTest, DoesNotRepeatAPassword) {
  const std::string message = Parsed("http://me:secret@h");
  EXPECT_THAT(message, HasSubstr("user name"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace gpupool::server
