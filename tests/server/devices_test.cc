#include "server/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::vector<std::string> Names(const std::vector<DeviceChoice>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.name);
  return names;
}

TEST(DevicesTest, CpuDevicesShareCoresAndHalfTheMemory) {
  const auto choices =
      ChooseDevices("cpu:2", 0, {.cores = 5, .memory_bytes = 16 * kGiB});
  ASSERT_TRUE(choices.ok()) << choices.status();
  EXPECT_EQ(Names(*choices), (std::vector<std::string>{"cpu:0", "cpu:1"}));
  EXPECT_EQ(choices->at(0).limit_bytes, 4 * kGiB);
  EXPECT_EQ(choices->at(0).threads, 3u);
  EXPECT_EQ(choices->at(1).threads, 2u);
}

TEST(DevicesTest, EveryDeviceHasAThreadAndTheMemoryThatWasAskedFor) {
  const auto choices =
      ChooseDevices("cpu:4", kGiB, {.cores = 2, .memory_bytes = kGiB});
  for (const auto& choice : *choices) {
    EXPECT_EQ(choice.threads, 1u);
    EXPECT_EQ(choice.limit_bytes, kGiB);
  }
}

TEST(DevicesTest, AutoIsTwoCpuDevicesOrOneOnOneCore) {
  EXPECT_EQ(ChooseDevices("auto", 0, {.cores = 8})->size(), 2u);
  EXPECT_EQ(ChooseDevices("auto", 0, {.cores = 1})->size(), 1u);
}

TEST(DevicesTest, AutoTakesAllGpusAndOneCpuDevice) {
  const auto choices =
      ChooseDevices("auto", 0, {.cores = 8, .gpus = {{5 * kGiB}, {6 * kGiB}}});
  EXPECT_EQ(Names(*choices),
            (std::vector<std::string>{"cuda:0", "cuda:1", "cpu:0"}));
  EXPECT_EQ(choices->at(1).limit_bytes, 6 * kGiB);
  EXPECT_EQ(choices->at(1).threads, 1u);
}

TEST(DevicesTest, GpusTakeTheLimitThatWasAskedForUpToWhatTheyHave) {
  const MachineFacts machine{.gpus = {{5 * kGiB}, {6 * kGiB}}};
  EXPECT_EQ(ChooseDevices("cuda:1", 6 * kGiB, machine)->at(0).limit_bytes,
            6 * kGiB);
  const auto more = ChooseDevices("cuda:1,0", 6 * kGiB, machine);
  EXPECT_TRUE(absl::IsInvalidArgument(more.status()));
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("of cuda:0 "));
}

TEST(DevicesTest, GpuThatIsNotThereIsRefusedWithTheReason) {
  const auto none =
      ChooseDevices("cuda:0", 0, {.no_gpus = "the driver is too old"});
  EXPECT_TRUE(absl::IsFailedPrecondition(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("the driver is too old"));
  const auto gpu = ChooseDevices("cuda:0,3", 0, {.gpus = {{kGiB}, {kGiB}}});
  EXPECT_TRUE(absl::IsFailedPrecondition(gpu.status()));
  EXPECT_THAT(std::string(gpu.status().message()),
              HasSubstr("no cuda:3: the NVIDIA driver shows 2"));
}

TEST(DevicesTest, AutoLeavesOutGpusThatWorkersCannotUse) {
  const UsableGpu old = {.bytes = kGiB, .refusal = "no kernels for it"};
  MachineFacts machine{.cores = 8, .gpus = {{kGiB}, old, {kGiB}}};
  const auto chosen = ChooseDevices("auto", 0, machine);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_EQ(chosen->size(), 3u);
  EXPECT_EQ(chosen->at(0).name, "cuda:0");
  EXPECT_EQ(chosen->at(1).name, "cuda:2");
  const auto asked = ChooseDevices("cuda:1", 0, machine);
  EXPECT_TRUE(absl::IsFailedPrecondition(asked.status()));
  EXPECT_EQ(asked.status().message(),
            "cuda:1 cannot be used: no kernels for it");
  machine.gpus = {old};
  EXPECT_EQ(ChooseDevices("auto", 0, machine)->at(0).name, "cpu:0");
}

TEST(DevicesTest, LinksGoWithTheGpusThatWereChosen) {
  using scheduler::Link;
  const Link no = Link::kUnknown;
  const MachineFacts machine{
      .gpus = {{kGiB, {no, Link::kNvlink, Link::kSystem}},
               {kGiB, {Link::kNvlink, no, Link::kNode}},
               {kGiB, {Link::kSystem, Link::kNode, no}}}};
  const auto chosen = ChooseDevices("cuda:2,0", 0, machine);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->at(0).links, (std::vector<Link>{no, Link::kSystem}));
  EXPECT_EQ(chosen->at(1).links, (std::vector<Link>{Link::kSystem, no}));
}

TEST(DevicesTest, GpusComeFirstInTheOrderOfTheWords) {
  const MachineFacts machine{.cores = 8, .gpus = {{kGiB}, {kGiB}, {kGiB}}};
  EXPECT_EQ(Names(*ChooseDevices("cpu:2,cuda:2,0", 0, machine)),
            (std::vector<std::string>{"cuda:2", "cuda:0", "cpu:0", "cpu:1"}));
  EXPECT_EQ(Names(*ChooseDevices("cuda", 0, machine)),
            (std::vector<std::string>{"cuda:0", "cuda:1", "cuda:2"}));
}

TEST(DevicesTest, CpuDevicesLeaveThreadsAndMemoryToTheGpusWorkers) {
  const MachineFacts machine{
      .cores = 16, .memory_bytes = 64 * kGiB, .gpus = {{kGiB}, {kGiB}}};
  const auto one = ChooseDevices("cuda:0,1,cpu:1", 0, machine);
  EXPECT_EQ(one->at(2).threads, 7u);
  EXPECT_EQ(one->at(2).limit_bytes, 16 * kGiB);
  const auto two = ChooseDevices("cuda:1,cpu:2", 0, machine);
  EXPECT_EQ(two->at(1).threads, 4u);
  EXPECT_EQ(two->at(2).threads, 4u);
  EXPECT_EQ(two->at(2).limit_bytes, 8 * kGiB);
}

TEST(DevicesTest, CpuDeviceHasAThreadBesideAsManyGpusAsCores) {
  const auto choices =
      ChooseDevices("cuda,cpu:1", 0, {.cores = 1, .gpus = {{kGiB}, {kGiB}}});
  EXPECT_EQ(choices->at(2).threads, 1u);
}

TEST(DevicesTest, LimitOfEachDeviceIsBoundByTheCpuDevicesShareBesideGpus) {
  const MachineFacts machine{
      .cores = 8, .memory_bytes = 16 * kGiB, .gpus = {{80 * kGiB}}};
  const auto large = ChooseDevices("auto", 70 * kGiB, machine);
  EXPECT_EQ(large->at(0).limit_bytes, 70 * kGiB);
  EXPECT_EQ(large->at(1).limit_bytes, 4 * kGiB);
  const auto small = ChooseDevices("auto", kGiB, machine);
  EXPECT_EQ(small->at(0).limit_bytes, kGiB);
  EXPECT_EQ(small->at(1).limit_bytes, kGiB);
}

TEST(DevicesTest, CpuDevicesBesideGpusHaveNoLinks) {
  using scheduler::Link;
  const MachineFacts machine{.cores = 2,
                             .gpus = {{kGiB, {Link::kUnknown, Link::kNvlink}},
                                      {kGiB, {Link::kNvlink, Link::kUnknown}}}};
  const auto chosen = ChooseDevices("auto", 0, machine);
  EXPECT_EQ(chosen->at(1).links,
            (std::vector<Link>{Link::kNvlink, Link::kUnknown}));
  EXPECT_TRUE(chosen->at(2).links.empty());
}

TEST(DevicesTest, AllGpusOfAMachineWithoutAnyAreRefusedWithTheReason) {
  const auto none = ChooseDevices("cuda,cpu:1", 0, {.no_gpus = "no driver"});
  EXPECT_TRUE(absl::IsFailedPrecondition(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("no driver"), HasSubstr("--devices cpu:1")));
}

TEST(DevicesTest, OtherWordsAreRefused) {
  const MachineFacts machine{.cores = 2, .gpus = {{kGiB}, {kGiB}}};
  const auto refused = ChooseDevices("cuda:0,cpu:0", 0, machine);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("\"cuda:0,cpu:0\""), HasSubstr("write cpu:1")));
}

TEST(DevicesTest, MachineHasCoresAndMemory) {
  const MachineFacts machine = ReadMachineFacts();
  EXPECT_GE(machine.cores, 1u);
  EXPECT_GT(machine.memory_bytes, 0u);
  EXPECT_TRUE(machine.gpus.empty());
}

}  // namespace
}  // namespace gpupool::server
