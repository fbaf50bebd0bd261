#include "server/device_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceList Parsed(const char* words) {
  const auto list = ParseDeviceList(words);
  EXPECT_TRUE(list.ok()) << words << ": " << list.status();
  return list.value_or(DeviceList{});
}

void ExpectAdvice(const char* words, const char* advice) {
  const auto list = ParseDeviceList(words);
  EXPECT_TRUE(absl::IsInvalidArgument(list.status())) << words;
  EXPECT_THAT(std::string(list.status().message()), HasSubstr(advice)) << words;
}

TEST(DeviceListTest, NumberBehindCpuIsACount) {
  const DeviceList list = Parsed("cpu:2");
  EXPECT_EQ(list.cpu_devices, 2u);
  EXPECT_THAT(list.gpus, IsEmpty());
  EXPECT_FALSE(list.all_gpus);
  EXPECT_FALSE(list.automatic);
}

TEST(DeviceListTest, NumbersBehindCudaAreIndices) {
  EXPECT_THAT(Parsed("cuda:2").gpus, ElementsAre(2));
  EXPECT_THAT(Parsed("cuda:2,0").gpus, ElementsAre(2, 0));
  EXPECT_THAT(Parsed("cuda:0,cuda:1").gpus, ElementsAre(0, 1));
  EXPECT_THAT(Parsed("cuda:0, cuda:3, 1").gpus, ElementsAre(0, 3, 1));
}

TEST(DeviceListTest, CudaAloneIsAllGpus) {
  EXPECT_TRUE(Parsed("cuda").all_gpus);
  const DeviceList mixed = Parsed("cuda,cpu:1");
  EXPECT_TRUE(mixed.all_gpus);
  EXPECT_EQ(mixed.cpu_devices, 1u);
}

TEST(DeviceListTest, GpusAndCpuDevicesMixInAnyOrder) {
  for (const char* words :
       {"cuda:0,1,cpu:3", "cpu:3,cuda:0,1", "cuda:0,cpu:3,cuda:1"}) {
    const DeviceList list = Parsed(words);
    EXPECT_THAT(list.gpus, ElementsAre(0, 1)) << words;
    EXPECT_EQ(list.cpu_devices, 3u) << words;
  }
}

TEST(DeviceListTest, AutoStandsAlone) {
  EXPECT_TRUE(Parsed("auto").automatic);
  ExpectAdvice("auto,cpu:1", "write cuda,cpu:1");
  ExpectAdvice("cuda,auto", "auto cannot be combined");
}

TEST(DeviceListTest, OnlyWordsThatMayMeanGpusAskForThem) {
  for (const char* words : {"auto", "cuda", "cuda:0", "cpu:1,cuda:0"}) {
    EXPECT_TRUE(MayMeanGpus(words)) << words;
  }
  EXPECT_FALSE(MayMeanGpus("cpu:2"));
  EXPECT_FALSE(MayMeanGpus("cuda:0,cuda:0"));
}

TEST(DeviceListTest, CountsOutOfBoundsSayWhatACountIs) {
  ExpectAdvice("cpu:0", "number of virtual devices; write cpu:1 for one");
  ExpectAdvice("cpu", "write cpu:1 for one, cpu:2 for two");
  ExpectAdvice("cpu:", "write cpu:1 for one");
  ExpectAdvice("cpu:65", "1 .. 64");
  ExpectAdvice("cpu:-1", "1 .. 64");
  ExpectAdvice("cpu:1-2", "1 .. 64");
}

TEST(DeviceListTest, IndicesThatAreNoneSayWhatToWrite) {
  ExpectAdvice("cuda:", "write cuda:0 for the first, cuda for all GPUs");
  ExpectAdvice("cuda:all", "cuda for all GPUs");
  ExpectAdvice("cuda:+1", "cuda:+1 names no GPU");
  ExpectAdvice("cuda:00", "cuda:00 has leading zeros");
  ExpectAdvice("cuda:0,01", "cuda:01 has leading zeros");
  ExpectAdvice("cuda:999999999999", "the index of a GPU is 0 .. 9999");
  ExpectAdvice("cuda:0-3", "write each index, as in cuda:0,1,2,3");
  ExpectAdvice("cuda:0,2-3", "cuda:2-3 is not the index");
  ExpectAdvice("0", "write cuda:0 for the GPU with that index");
  ExpectAdvice("cuda,1", "write cuda:1");
  ExpectAdvice("cuda:0,cpu:1,1", "write cuda:1");
}

TEST(DeviceListTest, NothingIsNamedTwice) {
  ExpectAdvice("cuda:0,0", "cuda:0 is named twice");
  ExpectAdvice("cuda:1,cuda:1", "cuda:1 is named twice");
  ExpectAdvice("cuda,cuda:1", "leave cuda:1 out");
  ExpectAdvice("cpu:1,cpu:2", "write cpu:3 for all of them");
}

TEST(DeviceListTest, NamesOfOtherProgramsAreTranslated) {
  ExpectAdvice("gpu", "write cuda for all or cuda:0 for the first");
  ExpectAdvice("GPU:0", "GPUs are called cuda");
  ExpectAdvice("mps", "there is no Apple GPU back end; write cpu:1");
  ExpectAdvice("rocm:0", "no AMD GPU back end");
  ExpectAdvice("xpu", "no Intel GPU back end");
}

TEST(DeviceListTest, OtherWordsGetExamples) {
  ExpectAdvice("", "write auto, cpu:1, cuda, cuda:0,1 or cuda,cpu:1");
  ExpectAdvice("cuda:0,", "\"\" is not a device");
  ExpectAdvice("meta", "\"meta\" is not a device");
}

}  // namespace
}  // namespace gpupool::server
