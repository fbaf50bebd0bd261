#include "client/cli/mlflow/tracking_credentials.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TrackingCredentialsTest : public ::testing::Test {
 protected:
  TrackingCredentialsTest() { Unset(); }
  ~TrackingCredentialsTest() override { Unset(); }

  static void Unset() {
    for (const char* name : {"USERNAME", "PASSWORD", "TOKEN",
                             "SERVER_CERT_PATH", "INSECURE_TLS"}) {
      ::unsetenv((std::string("MLFLOW_TRACKING_") + name).c_str());
    }
  }
  static void Set(const char* name, const char* value) {
    ::setenv((std::string("MLFLOW_TRACKING_") + name).c_str(), value, 1);
  }
  static TrackingCredentials Read() {
    const auto credentials = TrackingCredentials::FromEnvironment();
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.value_or(TrackingCredentials());
  }
};

TEST_F(TrackingCredentialsTest, AreNoneByDefault) {
  EXPECT_EQ(Read().authorization, "");
  EXPECT_EQ(Read().ca_file, "");
  EXPECT_TRUE(Read().verify_server);
}

TEST_F(TrackingCredentialsTest, AUserAndAPasswordAreBasicAuthentication) {
  Set("USERNAME", "me");
  Set("PASSWORD", "secret:1");
  Set("TOKEN", "abc");
  EXPECT_EQ(Read().authorization, "Basic bWU6c2VjcmV0OjE=");
}

TEST_F(TrackingCredentialsTest, ATokenIsSentUnlessBothOthersAreSet) {
  Set("TOKEN", "abc.def-1");
  EXPECT_EQ(Read().authorization, "Bearer abc.def-1");
  Set("USERNAME", "me");
  EXPECT_EQ(Read().authorization, "Bearer abc.def-1");
  Set("PASSWORD", "");
  EXPECT_EQ(Read().authorization, "Bearer abc.def-1");
}

TEST_F(TrackingCredentialsTest, RefusesATokenThatWouldEndTheHeader) {
  for (const char* token : {"abc\r\nX-Other: 1", "a b", "abc\n", "\xC3\xA9"}) {
    Set("TOKEN", token);
    const auto credentials = TrackingCredentials::FromEnvironment();
    EXPECT_EQ(credentials.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(credentials.status().message()),
        AllOf(HasSubstr("MLFLOW_TRACKING_TOKEN"), Not(HasSubstr("abc"))));
  }
}

TEST_F(TrackingCredentialsTest, CertificatesAreThoseOfAFileOrNotChecked) {
  Set("SERVER_CERT_PATH", "/etc/ca.pem");
  EXPECT_EQ(Read().ca_file, "/etc/ca.pem");
  Set("INSECURE_TLS", "false");
  EXPECT_TRUE(Read().verify_server);
  Set("INSECURE_TLS", "true");
  EXPECT_THAT(
      std::string(TrackingCredentials::FromEnvironment().status().message()),
      HasSubstr("contradict"));
  Set("SERVER_CERT_PATH", "");
  EXPECT_FALSE(Read().verify_server);
}

}  // namespace
}  // namespace gpupool::client
