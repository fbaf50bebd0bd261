// jobs, get, cancel, wait, logs: verbs that look at jobs.
#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using JobsTest = CommandTest;

TEST_F(JobsTest, ListsAllPagesNewestFirst) {
  for (uint64_t id = 1; id <= 5; ++id) AddJob(id, "job", v1::RUNNING);
  EXPECT_EQ(Run({"jobs", "--no-headers"}), 0);
  EXPECT_EQ(out(),
            "5\tjob\trunning\t-\t-\t-\t-\t-\n4\tjob\trunning\t-\t-\t-\t-\t-\n"
            "3\tjob\trunning\t-\t-\t-\t-\t-\n2\tjob\trunning\t-\t-\t-\t-\t-\n"
            "1\tjob\trunning\t-\t-\t-\t-\t-\n");
}

TEST_F(JobsTest, SendsItsFilters) {
  AddJob(1, "digits", v1::RUNNING);
  EXPECT_EQ(Run({"jobs", "--state", "running,backing_off", "--tenant", "lab",
                 "--name", "digits", "--limit", "1", "-o", "json"}),
            0);
  EXPECT_EQ(nlohmann::json::parse(out())["jobs"].size(), 1u);
  absl::MutexLock lock(&server_.state.mutex);
  const v1::ListJobsRequest& request = server_.state.listed;
  EXPECT_THAT(request.states(),
              ::testing::ElementsAre(v1::RUNNING, v1::BACKING_OFF));
  EXPECT_EQ(request.tenant(), "lab");
  EXPECT_EQ(request.name(), "digits");
  EXPECT_EQ(request.page_size(), 1);
}

TEST_F(JobsTest, SaysOnATerminalThatNoneMatchesOrThatThereIsNone) {
  std::ostringstream out, err;
  const auto list = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--address", server_.address()});
    err.str("");
    const Console console{{.stream = &out, .is_terminal = true},
                          {.stream = &err}};
    EXPECT_EQ(RunCommandLine(arguments, console, {}), 0);
    return err.str();
  };
  EXPECT_THAT(list({"jobs"}), HasSubstr("start one with"));
  constexpr char kNoMatch[] =
      "no job matches; `gpupool jobs` lists all of them\n";
  EXPECT_EQ(list({"jobs", "--name=x"}), kNoMatch);
  EXPECT_EQ(list({"jobs", "--tenant=x"}), kNoMatch);
  EXPECT_EQ(list({"jobs", "--state=running"}), kNoMatch);
}

TEST_F(JobsTest, AnArrayThatIsNotThereIsAnError) {
  EXPECT_EQ(Run({"jobs", "--array", "99"}), 3);
  EXPECT_THAT(err(), HasSubstr("99"));
  AddJob(7, "digits", v1::RUNNING);
  EXPECT_EQ(Run({"jobs", "--array", "7"}), 3) << "a job is no array";
}

TEST_F(JobsTest, RefusesAnUnknownState) {
  EXPECT_EQ(Run({"jobs", "--state", "asleep"}), 2);
  EXPECT_THAT(err(), HasSubstr("asleep"));
}

using ProfileTest = CommandTest;

TEST_F(ProfileTest, WritesTheTraceAndSaysWhereToOpenIt) {
  AddJob(7, "digits", v1::RUNNING);
  const std::string file = WriteFile("trace.json", "");
  EXPECT_EQ(Run({"profile", "digits", "--steps", "3", "-O", file}), 0);
  EXPECT_THAT(out(), StartsWith(absl::StrCat(
                         file, ": 3 steps, ", FakeTrace().size(),
                         " B; open it at https://ui.perfetto.dev\n\nOP\t")));
  EXPECT_THAT(out(), HasSubstr("\nfc\t1\t0.040\t100.0%\t80.0k\t2.0G\t2.5M\n"));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(text.str(), FakeTrace());
  EXPECT_EQ(Run({"profile", "7", "-O", file}), 0);
  EXPECT_THAT(out(), HasSubstr(": 5 steps, ")) << "by default";
  for (const std::string format : {"json", "yaml"}) {
    EXPECT_EQ(Run({"profile", "7", "-O", file, "-o", format}), 0);
    const auto json = nlohmann::json::parse(out());
    EXPECT_EQ(json["file"], file);
    EXPECT_EQ(json["steps"], 5);
    EXPECT_EQ(json["bytes"], FakeTrace().size());
  }
  const std::string flame = WriteFile("flame.svg", "");
  EXPECT_EQ(Run({"profile", "7", "-O", file, "--flame", flame}), 0);
  std::ostringstream svg;
  svg << std::ifstream(flame).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("<title>matmul: 0.040 ms a step, 100.0%"));
  EXPECT_EQ(Run({"profile", "7", "-O", file, "--flame", "/nowhere/x.svg"}), 3);
  const std::string memory = WriteFile("memory.svg", "");
  EXPECT_EQ(Run({"profile", "7", "-O", file, "--memory", memory}), 0);
  EXPECT_THAT(out(), HasSubstr("the plan needs 2.0 KiB"));
  svg.str("");
  svg << std::ifstream(memory).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("peak 2.0 KiB at op 1"));
}

TEST_F(ProfileTest, RefusesToWriteTwoThingsToOneFile) {
  AddJob(7, "digits", v1::RUNNING);
  const std::string file = WriteFile("trace.json", "kept");
  const size_t slash = file.rfind('/');
  const std::string same = file.substr(0, slash) + "/." + file.substr(slash);
  for (const char* option : {"--flame", "--memory"}) {
    EXPECT_EQ(Run({"profile", "7", "-O", file, option, same}), 2) << option;
    EXPECT_THAT(err(), HasSubstr(absl::StrCat("--file and ", option)));
  }
  EXPECT_EQ(Run({"profile", "7", "-O", file, "--flame", "new.svg", "--memory",
                 "./new.svg"}),
            2);
  EXPECT_THAT(err(), HasSubstr("--flame and --memory"));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(text.str(), "kept");
}

TEST_F(ProfileTest, ListsAndShowsRecordedProfiles) {
  AddJob(7, "digits", v1::SUCCEEDED);
  EXPECT_EQ(Run({"profile", "7", "--list"}), 0);
  EXPECT_EQ(out(), "CYCLE\tFIRST STEP\tSTEPS\tATTEMPT\tSIZE\n");
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::RecordedProfile& profile =
        *server_.state.jobs[7].add_recorded_profiles();
    profile.set_cycle(2);
    profile.set_first_step(11);
    profile.set_steps(5);
    profile.set_attempt(1);
    profile.set_bytes(2048);
  }
  EXPECT_EQ(Run({"profile", "digits", "--list", "--no-headers"}), 0);
  EXPECT_EQ(out(), "2\t11\t5\t1\t2.0 KiB\n");
  EXPECT_EQ(Run({"profile", "7", "--list", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["recorded_profiles"][0]["cycle"], 2);
  const std::string file = WriteFile("trace.json", "");
  EXPECT_EQ(Run({"profile", "7", "--recorded", "2", "-O", file}), 0);
  EXPECT_THAT(out(), HasSubstr(": 20 steps, "));
  EXPECT_EQ(Run({"profile", "7", "--recorded", "2"}), 2);
  EXPECT_EQ(
      Run({"profile", "7", "--recorded", "2", "--steps", "3", "-O", file}), 2);
  EXPECT_EQ(Run({"profile", "7", "--list", "--recorded", "2"}), 2);
  for (const char* option : {"-O", "--flame", "--memory"}) {
    EXPECT_EQ(Run({"profile", "7", "--list", option, file}), 2) << option;
  }
}

TEST_F(ProfileTest, ChecksTheJobAndTheSteps) {
  AddJob(7, "digits", v1::RUNNING);
  EXPECT_EQ(Run({"profile", "9", "-O", "trace.json"}), 3);
  EXPECT_EQ(Run({"profile", "7", "--steps", "101", "-O", "trace.json"}), 2);
  EXPECT_THAT(err(), HasSubstr("--steps: Value 101 not in range"));
  EXPECT_EQ(Run({"profile", "7", "--steps", "0", "-O", "trace.json"}), 2);
  EXPECT_EQ(Run({"profile", "7"}), 2);
  EXPECT_THAT(err(), HasSubstr("--file"));
}

using GetTest = CommandTest;

TEST_F(GetTest, FindsByIdAndByName) {
  AddJob(1, "digits", v1::SUCCEEDED);
  AddJob(2, "digits", v1::FAILED);
  EXPECT_EQ(Run({"get", "1"}), 0);
  EXPECT_THAT(out(), StartsWith("job:         1 (digits)\n"
                                "state:       succeeded\n"));
  EXPECT_EQ(Run({"get", "digits", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["id"], "2") << "the newest";
}

TEST_F(GetTest, TellsWhichJobIsNotThere) {
  EXPECT_EQ(Run({"get", "9"}), 3);
  EXPECT_EQ(Run({"get", "nobody"}), 3);
  EXPECT_THAT(err(), HasSubstr("no job is named 'nobody'"));
  EXPECT_EQ(out(), "");
}

TEST_F(GetTest, NamesAllDevicesOfAnAttempt) {
  AddJob(1, "digits", v1::RUNNING);
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Job& job = server_.state.jobs.at(1);
    job.set_device("cpu:0");
    for (int i = 0; i < 2; ++i) job.add_devices(absl::StrCat("cpu:", i));
  }
  EXPECT_EQ(Run({"get", "1"}), 0);
  EXPECT_THAT(out(), HasSubstr("devices:     cpu:0, cpu:1\n"));
  EXPECT_EQ(Run({"jobs", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("\tcpu:0,cpu:1\t"));
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Job& job = server_.state.jobs.at(1);
    for (int i = 2; i < 8; ++i) job.add_devices(absl::StrCat("cpu:", i));
  }
  EXPECT_EQ(Run({"jobs", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("\tcpu:0 and 7 more\t"));
}

using CancelTest = CommandTest;

TEST_F(CancelTest, CancelsAndSaysSo) {
  AddJob(4, "digits", v1::RUNNING);
  EXPECT_EQ(Run({"cancel", "digits"}), 0);
  EXPECT_EQ(out(), "job 4 (digits) is cancelled\n");
}

TEST_F(CancelTest, AnEmptyNameIsNoJob) {
  AddJob(4, "digits", v1::RUNNING);
  EXPECT_EQ(Run({"cancel", ""}), 2);
  EXPECT_THAT(err(), HasSubstr("the job is empty: write its number, its name"));
  EXPECT_EQ(Run({"jobs", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("\trunning\t"));
}

using WaitTest = CommandTest;

TEST_F(WaitTest, ReturnsTheJobsResult) {
  AddJob(1, "good", v1::SUCCEEDED);
  AddJob(2, "bad", v1::FAILED);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1] = {StateEvent(1, v1::SUCCEEDED)};
    server_.state.events[2] = {StateEvent(1, v1::FAILED)};
  }
  EXPECT_EQ(Run({"wait", "1"}), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(Run({"wait", "2"}), 1);
}

TEST_F(WaitTest, EndsWith124WhenTheTimeIsOver) {
  AddJob(1, "slow", v1::RUNNING);
  EXPECT_EQ(Run({"wait", "1", "--timeout", "0.2"}), 124);
  EXPECT_THAT(err(), HasSubstr("job 1 is still running after 0.2s"));
}

TEST_F(WaitTest, RefusesATimeoutThatIsNone) {
  EXPECT_EQ(Run({"wait", "1", "--timeout", "later"}), 2);
}

using LogsTest = CommandTest;

TEST_F(LogsTest, PrintsStoredLinesOfARunningJobAndEnds) {
  AddJob(1, "digits", v1::RUNNING);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1] = {StateEvent(1, v1::RUNNING),
                               ProgressEvent(2, 1, 2),
                               LogEvent(3, "compiled in 12 ms")};
  }
  EXPECT_EQ(Run({"logs", "1"}), 0);
  EXPECT_EQ(
      out(),
      "1970-01-01T00:00:00.000Z STATE   running\n"
      "1970-01-01T00:00:00.000Z STEP    1 of 2: loss 0.25, 31.2k samples/s\n"
      "1970-01-01T00:00:00.000Z INFO    compiled in 12 ms\n");
}

TEST_F(LogsTest, FollowsToTheEnd) {
  AddJob(1, "digits", v1::RUNNING);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1] = {LogEvent(1, "late"),
                               StateEvent(2, v1::SUCCEEDED)};
  }
  EXPECT_EQ(Run({"logs", "digits", "-f", "-o", "json"}), 0);
  std::istringstream lines(out());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["log"]["text"], "late");
}

}  // namespace
}  // namespace gpupool::client
