#include "scheduler/simulator/openb.h"

#include <gmock/gmock.h>

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(OpenbTest, NodesAreRead) {
  const auto nodes = ParseNodes(
      "sn,cpu_milli,memory_mib,gpu,model\n"
      "a,32000,1024,0,\n\nb,96000,2048,8,G2\r\n");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_EQ((*nodes)[0].devices, 0u);
  EXPECT_EQ((*nodes)[1].kind, "G2");
  EXPECT_EQ((*nodes)[1].devices, 8u);
  EXPECT_EQ((*nodes)[1].host, (HostNeed{96000, 2048 * kMiB}));
}

TEST(OpenbTest, PodsAreRead) {
  const auto pods = ParsePods(
      "num_gpu,gpu_milli,cpu_milli,memory_mib,gpu_spec\n"
      "1,460,6000,12,T4\n4,1000,9001,8,\n0,0,500,1,\n");
  ASSERT_TRUE(pods.ok()) << pods.status();
  ASSERT_EQ(pods->size(), 3u);
  EXPECT_EQ((*pods)[0], (JobNeed{"T4", 1, 460, {6000, 12 * kMiB}}));
  EXPECT_EQ((*pods)[1], (JobNeed{"", 4, 1000, {2251, 2 * kMiB}}));
  EXPECT_EQ((*pods)[2], (JobNeed{kHostKind, 1, 0, {500, kMiB}}));
}

TEST(OpenbTest, WhatIsWrongIsNamed) {
  const auto pods = [](const std::string& row) {
    return std::string(
        ParsePods("num_gpu,gpu_milli,cpu_milli,memory_mib,gpu_spec\n" + row)
            .status()
            .message());
  };
  EXPECT_THAT(pods("1,1001,0,0,"), HasSubstr("line 2: gpu_milli is '1001'"));
  EXPECT_THAT(pods("1,0,0,0,"), HasSubstr("gpu_milli is '0'"));
  EXPECT_THAT(pods("-1,0,0,0,"), HasSubstr("num_gpu is '-1'"));
  EXPECT_THAT(pods("1,5,x,0,"), HasSubstr("cpu_milli is 'x'"));
  EXPECT_THAT(pods("1,5,1,,"), HasSubstr("memory_mib is ''"));
  EXPECT_THAT(pods("1,5,1,1,A10|T4"), HasSubstr("gpu_spec is 'A10|T4'"));
  EXPECT_THAT(pods(""), HasSubstr("there are no pods"));
  EXPECT_THAT(std::string(ParseNodes("cpu_milli,gpu\n1,1").status().message()),
              HasSubstr("names no column 'memory_mib'"));
  EXPECT_THAT(
      std::string(
          ParseNodes("cpu_milli,gpu,memory_mib\n1,1025,1").status().message()),
      HasSubstr("gpu is '1025'"));
}

TEST(OpenbTest, AGeneratedWorkloadIsTheSameForASeed) {
  EXPECT_EQ(GenerateNeeds(100, 4), GenerateNeeds(100, 4));
  EXPECT_NE(GenerateNeeds(100, 4), GenerateNeeds(100, 5));
  EXPECT_EQ(GenerateNodes(3).size(), 3u);
}

}  // namespace
}  // namespace gpupool::scheduler
