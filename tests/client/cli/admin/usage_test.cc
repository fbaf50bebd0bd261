// gpupool usage.
#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

using UsageTest = CommandTest;

TEST_F(UsageTest, ATableOfAllPagesInHours) {
  EXPECT_EQ(Run({"usage"}), 0);
  EXPECT_EQ(out(),
            "TENANT\tKIND\tACTIVITY\tDEVICE-HOURS\tGIB-HOURS\tKWH\n"
            "team, \"a\"\tcuda\ttraining\t1.500\t1.000\t1.000\n"
            "b\tcuda\ttraining\t0.000583\t0.00000136\t-\n");
}

TEST_F(UsageTest, ShortRunsDoNotPrintAsZero) {
  EXPECT_EQ(Run({"usage", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("b\tcuda\ttraining\t0.000583\t0.00000136\t"));
}

TEST_F(UsageTest, ByJobHasTheJobsModelAndTenant) {
  EXPECT_EQ(Run({"usage", "--by", "job", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("7\tteam, \"a\"\tdigits\tcuda\ttraining"));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.usage_request.grouping(), v1::BY_JOB);
}

TEST_F(UsageTest, CsvHasSecondsBytesAndJoules) {
  EXPECT_EQ(Run({"usage", "--by", "job", "--csv"}), 0);
  EXPECT_EQ(out(),
            "tenant,job_id,model,device_kind,activity,device_seconds,"
            "byte_seconds,energy_joules,metered_device_seconds\n"
            "\"team, \"\"a\"\"\",7,digits,cuda,training,5400.000,"
            "3865470566400,3600000.0,5400.000\n"
            "b,,,cuda,training,2.100,5242880,,0.000\n");
}

TEST_F(UsageTest, JsonHasEveryRow) {
  EXPECT_EQ(Run({"usage", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["rows"].size(), 2u);
}

TEST_F(UsageTest, TimesAreSent) {
  EXPECT_EQ(Run({"usage", "--since", "2026-11-22T10:00:00Z", "--until",
                 "2026-11-22T12:00:00Z", "--tenant", "b"}),
            0);
  absl::MutexLock lock(&server_.state.mutex);
  const v1::GetUsageRequest& request = server_.state.usage_request;
  EXPECT_EQ(request.until().seconds() - request.since().seconds(), 7200);
  EXPECT_EQ(request.tenant(), "b");
}

TEST_F(UsageTest, ATimeThatIsNoneIsRefused) {
  EXPECT_EQ(Run({"usage", "--since", "yesterday"}), 2);
  EXPECT_THAT(err(), HasSubstr("--since is"));
  EXPECT_THAT(err(), HasSubstr("write 7d or 12h (ago)"));
}

}  // namespace
}  // namespace gpupool::client
