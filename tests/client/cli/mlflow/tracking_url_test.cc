#include "client/cli/mlflow/tracking_url.h"

#include <gmock/gmock.h>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string UrlError(absl::string_view text) {
  const auto url = ParseTrackingUrl(text);
  EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(url.status().message());
}

TEST(TrackingUrlTest, HasHostPortAndPrefix) {
  const auto url = ParseTrackingUrl("http://tracker:5000/team/mlflow//");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(url->host, "tracker");
  EXPECT_EQ(url->port, 5000);
  EXPECT_EQ(url->authority, "tracker:5000");
  EXPECT_EQ(url->prefix, "/team/mlflow");
  EXPECT_EQ(url->Text(), "http://tracker:5000/team/mlflow");
}

TEST(TrackingUrlTest, ThePortIsThatOfTheScheme) {
  EXPECT_EQ(ParseTrackingUrl("http://tracker")->port, 80);
  EXPECT_EQ(ParseTrackingUrl("HTTPS://tracker/")->port, 443);
  EXPECT_TRUE(ParseTrackingUrl("HTTPS://tracker/")->tls);
  EXPECT_EQ(ParseTrackingUrl("https://tracker/")->Text(), "https://tracker");
  EXPECT_EQ(ParseTrackingUrl("http://tracker:65535")->port, 65535);
}

TEST(TrackingUrlTest, AnIpv6AddressStandsInBrackets) {
  const auto url = ParseTrackingUrl("http://[fe80::1]:5000");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->host, "fe80::1");
  EXPECT_EQ(url->port, 5000);
  EXPECT_EQ(url->authority, "[fe80::1]:5000");
  EXPECT_EQ(ParseTrackingUrl("http://[::1]")->port, 80);
  EXPECT_THAT(UrlError("http://[::1"), HasSubstr("no ]"));
  EXPECT_THAT(UrlError("http://[::1]5000"), HasSubstr("port"));
  EXPECT_THAT(UrlError("http://[]:5000"), HasSubstr("no host"));
}

TEST(TrackingUrlTest, RefusesOtherSchemesByName) {
  for (const char* text : {"sqlite:///runs.db", "databricks://profile",
                           "file:/tmp/runs", "databricks:"}) {
    SCOPED_TRACE(text);
    const std::string scheme =
        std::string(text).substr(0, std::string(text).find(':'));
    EXPECT_THAT(UrlError(text), HasSubstr("the scheme '" + scheme + "'"));
    EXPECT_THAT(UrlError(text), HasSubstr("mlflow server"));
  }
}

TEST(TrackingUrlTest, AsksForASchemeWhereThereIsNone) {
  for (const char* text : {"", "tracker", "localhost:5000", "/runs"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(UrlError(text), HasSubstr("has no scheme; write http://"));
  }
}

TEST(TrackingUrlTest, RefusesPortsThatAreNone) {
  for (const char* port : {"0", "65536", "x", "", "-1", "5000x"}) {
    SCOPED_TRACE(port);
    EXPECT_THAT(UrlError(std::string("http://tracker:") + port),
                HasSubstr("from 1 to 65535"));
  }
}

TEST(TrackingUrlTest, RefusesWhatIsNoAddressOfAServer) {
  EXPECT_THAT(UrlError("http://"), HasSubstr("names no host"));
  EXPECT_THAT(UrlError("http:///runs"), HasSubstr("names no host"));
  EXPECT_THAT(UrlError("http://tracker?x=1"), HasSubstr("query"));
  EXPECT_THAT(UrlError("http://tracker/#/experiments/1"),
              HasSubstr("fragment"));
  EXPECT_THAT(UrlError("http://tracker/a b"), HasSubstr("%XX"));
  EXPECT_THAT(UrlError("http://tracker/\r\nX: y"), HasSubstr("%XX"));
}

TEST(TrackingUrlTest, RefusesAPasswordWithoutPrintingIt) {
  for (const char* text :
       {"http://me:secret@tracker:5000", "me:secret@tracker:5000"}) {
    const std::string error = UrlError(text);
    EXPECT_THAT(error, HasSubstr("MLFLOW_TRACKING_PASSWORD"));
    EXPECT_THAT(error, Not(HasSubstr("secret")));
  }
}

TEST(TrackingUrlTest, EncodesWhatAQueryMayNotHave) {
  EXPECT_EQ(PercentEncoded("aZ09-_.~"), "aZ09-_.~");
  EXPECT_EQ(PercentEncoded("a b&c=d/+%\xC3\xA9"),
            "a%20b%26c%3Dd%2F%2B%25%C3%A9");
}

}  // namespace
}  // namespace gpupool::client
