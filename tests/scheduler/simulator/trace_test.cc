#include "scheduler/simulator/trace.h"

#include <gmock/gmock.h>

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

std::string Refusal(absl::string_view csv) {
  const auto trace = ParseTrace(csv);
  EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(trace.status().message());
}

TEST(TraceTest, ColumnsStandInAnyOrderAndOthersAreIgnored) {
  const auto trace = ParseTrace(
      "gpus,color,submit_s,vc,duration_s,job_id\r\n"
      "2,red,10.5,a,60,x\n"
      "\n"
      "1,blue,3,b,0.5,y\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ((*trace)[0].name, "y") << "in order of submission";
  EXPECT_EQ((*trace)[0].run, absl::Milliseconds(500));
  EXPECT_EQ((*trace)[1].devices, 2u);
  EXPECT_EQ((*trace)[1].tenant, "a");
  EXPECT_EQ((*trace)[1].submit, absl::Milliseconds(10500));
}

TEST(TraceTest, JobsOfOneMomentStayInOrderAndMayHaveNoName) {
  const auto trace =
      ParseTrace("submit_s,gpus,duration_s\n5,1,1\n5,2,1\n0,3,1\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ((*trace)[0].devices, 3u);
  EXPECT_EQ((*trace)[1].devices, 1u);
  EXPECT_EQ((*trace)[2].devices, 2u);
  EXPECT_EQ((*trace)[1].name, "2") << "its line";
}

TEST(TraceTest, EveryBadValueIsNamedWithItsLine) {
  const std::string header = "job_id,submit_s,gpus,duration_s\n";
  EXPECT_THAT(Refusal(header + "a,0,1,1\nb,0,zero,1\n"),
              HasSubstr("line 3 of the trace: gpus is 'zero'"));
  for (const char* row : {"a,-1,1,1", "a,nan,1,1", "a,0,0,1", "a,0,65537,1",
                          "a,0,1,0", "a,0,1,inf", "a,0,1", "a"}) {
    EXPECT_THAT(Refusal(header + row), HasSubstr("line 2")) << row;
  }
  EXPECT_THAT(Refusal(header + "a,0,1,1\na,0,1,1\n"), HasSubstr("job_id"));
}

TEST(TraceTest, AMissingColumnIsNamed) {
  EXPECT_THAT(Refusal("job_id,submit_s,gpus\n"), HasSubstr("'duration_s'"));
  EXPECT_THAT(Refusal(""), HasSubstr("no jobs"));
  EXPECT_THAT(Refusal("submit_s,gpus,duration_s\n"), HasSubstr("no jobs"));
}

TEST(TraceTest, AGeneratedTraceIsTheSameForTheSameSeed) {
  const auto first = GenerateTrace({.jobs = 500, .seed = 7});
  const auto again = GenerateTrace({.jobs = 500, .seed = 7});
  const auto other = GenerateTrace({.jobs = 500, .seed = 8});
  ASSERT_EQ(first.size(), 500u);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].run, again[i].run);
    EXPECT_EQ(first[i].submit, again[i].submit);
  }
  EXPECT_NE(first[0].run, other[0].run);
}

TEST(TraceTest, AGeneratedTraceAsksForItsLoad) {
  const auto trace = GenerateTrace({.jobs = 3000, .devices = 32, .load = 0.8});
  absl::Duration work;
  for (const TraceJob& job : trace) {
    EXPECT_LE(job.devices, 32u);
    EXPECT_GT(job.run, absl::ZeroDuration());
    work += job.run * job.devices;
  }
  const absl::Duration span = trace.back().submit;
  EXPECT_NEAR(absl::FDivDuration(work, span * 32), 0.8, 0.05);
}

}  // namespace
}  // namespace gpupool::scheduler
