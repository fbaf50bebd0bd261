// gpupool doctor with a script instead of the worker.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

class DoctorTest : public CommandTest {
 protected:
  // Runs the verb with a worker that runs `script`.
  int Doctor(const std::string& script, std::vector<std::string> more = {}) {
    const std::string worker = WriteFile("worker", "#!/bin/sh\n" + script);
    ::chmod(worker.c_str(), 0700);
    more.insert(more.begin(), {"doctor", "--worker-binary", worker});
    return Run(more);
  }

  static std::string Finding(const std::string& severity) {
    return "echo '{\"findings\":[{\"id\":\"driver.none\",\"severity\":\"" +
           severity + "\",\"text\":\"no driver\",\"remedy\":\"none\"}]}'\n";
  }
};

TEST_F(DoctorTest, OnlyFailuresFail) {
  EXPECT_EQ(Doctor(Finding("warn")), 0) << err();
  EXPECT_THAT(out(), HasSubstr("[warn]  no driver"));
  EXPECT_EQ(Doctor(Finding("fail") + "exit 1"), 1);
  EXPECT_THAT(out(), HasSubstr("[fail]  no driver"));
}

TEST_F(DoctorTest, JsonIsForScripts) {
  EXPECT_EQ(Doctor(Finding("fail"), {"-o", "json"}), 1);
  EXPECT_EQ(nlohmann::json::parse(out()).at("failures"), 1);
}

TEST_F(DoctorTest, TheWorkerGetsWhatTheServerWould) {
  const std::string arguments = WriteFile("arguments", "");
  EXPECT_EQ(Doctor("echo \"$@\" > " + arguments + "\n" + Finding("ok"),
                   {"--state-dir", "/s", "--cuda-lib-dir", "/a:/b", "--ports",
                    "1,2,3", "--expect-gpu"}),
            0);
  std::ifstream file(arguments);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line,
            "doctor --state-dir /s --ports 1,2,3 --cuda-lib-dir /a:/b "
            "--expect-gpu");
}

TEST_F(DoctorTest, WithoutAWorkerItSaysWhereItShouldBe) {
  EXPECT_EQ(Run({"doctor", "--worker-binary", "/no/where"}), 3);
  EXPECT_THAT(err(), HasSubstr("/no/where"));
  EXPECT_THAT(err(), HasSubstr("--worker-binary"));
}

TEST_F(DoctorTest, AWorkerOfAnotherBuildIsTold) {
  EXPECT_EQ(Doctor("echo nonsense"), 5);
  EXPECT_THAT(err(), HasSubstr("of one build"));
  EXPECT_EQ(Doctor("exit 2"), 2);
}

TEST_F(DoctorTest, AWorkerThatFailedIsNotTrusted) {
  EXPECT_EQ(Doctor("echo '{\"findings\":[]}'"), 5);
  EXPECT_THAT(out(), ::testing::Not(HasSubstr("nothing is wrong")));
  EXPECT_EQ(Doctor(Finding("ok") + "exit 77"), 5);
  EXPECT_THAT(err(), HasSubstr("ended with exit code 77"));
  EXPECT_EQ(Doctor(Finding("ok") + "kill -7 $$"), 5);
  EXPECT_THAT(err(), HasSubstr("killed by signal 7 (Bus error)"));
}

TEST_F(DoctorTest, AWorkerThatIsAFolderHasARemedy) {
  EXPECT_EQ(Run({"doctor", "--worker-binary", "/tmp"}), 5);
  EXPECT_THAT(err(), HasSubstr("cannot start /tmp: it is a folder; install"));
}

TEST_F(DoctorTest, TheTimeoutIsTheLimitOfAll) {
  EXPECT_EQ(Doctor("exec sleep 1000", {"--timeout", "1"}), 124);
  EXPECT_THAT(err(), HasSubstr("did not end within 1s; allow more time "
                               "with --timeout"));
  const std::string arguments = WriteFile("arguments", "");
  EXPECT_EQ(Doctor("echo \"$@\" > " + arguments + "\n" + Finding("ok"),
                   {"--timeout", "75s"}),
            0);
  std::ifstream file(arguments);
  std::string line;
  std::getline(file, line);
  EXPECT_THAT(line, HasSubstr(" --limit-seconds 20 --total-seconds 60"));
}

TEST_F(DoctorTest, PortsAndFoldersThatCannotBeAreNamed) {
  const auto refused = [&](const std::string& option, const std::string& value,
                           const std::string& words) {
    EXPECT_EQ(Doctor(Finding("ok"), {option, value}), 2) << value;
    EXPECT_THAT(err(), HasSubstr(option));
    EXPECT_THAT(err(), HasSubstr(words));
  };
  refused("--ports", "99999,1,2", "'99999' in '99999,1,2' is not a port; ");
  refused("--ports", "99999,1,2", "write 0 to 65535");
  refused("--ports", "", "is not a port");
  refused("--ports", "1,,2", "'' in '1,,2' is not a port");
  refused("--ports", "-1", "'-1' in '-1' is not a port");
  refused("--ports", "1,2,1", "the port 1 occurs twice");
  refused("--ports", "1,2,3,4", "there are 4 ports");
  refused("--state-dir", "", "it is empty; name a folder");
  EXPECT_EQ(Doctor(Finding("ok"), {"--ports", "0,0,0"}), 0) << err();
}

}  // namespace
}  // namespace gpupool::client
