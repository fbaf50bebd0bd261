// gpupool tls.
#include <filesystem>

#include "tests/client/cli/command_test_base.h"
#include "tests/tls/test_authority.h"
#include "tls/openssl_handles.h"
#include "tls/pem.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TlsTest : public CommandTest {
 protected:
  std::string File(const std::string& name) const {
    return folder_ + "/" + name;
  }
  // Returns whether the certificate of the server has this name.
  bool HasHost(const std::string& host) const {
    const auto parsed =
        tls::ParseCertificates(tls::TextOfFile(File("server.pem")), "f");
    return parsed.ok() && X509_check_host(parsed->front().get(), host.c_str(),
                                          0, 0, nullptr) == 1;
  }

  server::TempDir parent_;
  const std::string folder_ = parent_ / "pki";
};

TEST_F(TlsTest, MakesFilesWithWhichAServerAndAClientMeet) {
  ASSERT_EQ(Run({"tls", "init", folder_}), 0) << err();
  EXPECT_EQ(out(), File("ca.pem") + "\n" + File("ca.key") + "\n" +
                       File("server.pem") + "\n" + File("server.key") + "\n");
  EXPECT_THAT(err(), HasSubstr("--tls-key " + File("server.key")));
  ASSERT_EQ(Run({"tls", "client", folder_, "mia"}), 0) << err();
  EXPECT_EQ(out(), File("mia.pem") + "\n" + File("mia.key") + "\n");
  FakeServer server({File("server.pem"), File("server.key"), File("ca.pem")});
  std::ostringstream out, err;
  EXPECT_EQ(RunCommandLine({"jobs", "--address", server.address(), "--ca",
                            File("ca.pem"), "--client-cert", File("mia.pem"),
                            "--client-key", File("mia.key")},
                           {{.stream = &out}, {.stream = &err}}, {}),
            0)
      << err.str();
}

TEST_F(TlsTest, TheServerHasTheHostsAndLocalhost) {
  ASSERT_EQ(Run({"tls", "init", folder_, "--host", "pool.example.org", "--host",
                 "other"}),
            0);
  EXPECT_TRUE(HasHost("pool.example.org"));
  EXPECT_TRUE(HasHost("other"));
  EXPECT_TRUE(HasHost("localhost"));
  EXPECT_FALSE(HasHost("third"));
}

TEST_F(TlsTest, IsValidForTheDaysThatAreAsked) {
  ASSERT_EQ(Run({"tls", "init", folder_, "--days", "30"}), 0);
  const absl::Duration left =
      tls::ExpiryOf(tls::TextOfFile(File("server.pem"))) - absl::Now();
  EXPECT_GT(left, absl::Hours(24 * 29));
  EXPECT_LE(left, absl::Hours(24 * 30));
  EXPECT_EQ(Run({"tls", "client", folder_, "mia", "--days", "0"}), 2);
  EXPECT_THAT(err(), HasSubstr("1 to 3650 days, not 0"));
}

TEST_F(TlsTest, OverwritesNothing) {
  ASSERT_EQ(Run({"tls", "init", folder_}), 0);
  EXPECT_EQ(Run({"tls", "init", folder_}), 6);
  EXPECT_THAT(err(), HasSubstr(folder_ + " exists"));
  ASSERT_EQ(Run({"tls", "client", folder_, "mia"}), 0);
  EXPECT_EQ(Run({"tls", "client", folder_, "mia"}), 6);
  EXPECT_THAT(err(), HasSubstr("mia.key exists and is not overwritten"));
}

TEST_F(TlsTest, RefusesNamesThatAreNone) {
  EXPECT_EQ(Run({"tls", "init", folder_, "--host", "a:8001"}), 2);
  EXPECT_THAT(err(), AllOf(HasSubstr("'a:8001' is no host"),
                           HasSubstr("without a port")));
  EXPECT_EQ(Run({"tls", "init", folder_, "--host", ""}), 2);
  EXPECT_FALSE(std::filesystem::exists(folder_));
  ASSERT_EQ(Run({"tls", "init", folder_}), 0);
  EXPECT_EQ(Run({"tls", "client", folder_, "../mia"}), 2);
  EXPECT_THAT(err(), HasSubstr("no name of a client"));
}

TEST_F(TlsTest, PrintsTheFilesAsJson) {
  ASSERT_EQ(Run({"tls", "init", folder_, "-o", "json"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("\"files\""),
                           HasSubstr("\"" + File("server.key") + "\"")));
}

}  // namespace
}  // namespace gpupool::client
