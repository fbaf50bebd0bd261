#include "engine/runtime/module_architectures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const ModuleArchitectures kFat = {{75, 80, 86, 89, 90, 100, 120}, {80}};

bool Takes(const ModuleArchitectures& module, const std::string& capability) {
  return CheckArchitecture(module,
                           {.name = "a GPU", .compute_capability = capability})
      .ok();
}

std::string Refusal(const ModuleArchitectures& module, const std::string& name,
                    const std::string& capability) {
  const absl::Status status = CheckArchitecture(
      module, {.name = name, .compute_capability = capability});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  return std::string(status.message());
}

TEST(ModuleArchitecturesTest, CapabilitiesAreReadWhole) {
  EXPECT_EQ(ParseCapability("7.5"), 75);
  EXPECT_EQ(ParseCapability("12.1"), 121);
  for (const char* text : {"", "9", "9.", ".0", "9.0a", "9.00", "-9.0", "9.-1",
                           "0.5", "1234.5", "9.0.1"}) {
    EXPECT_EQ(ParseCapability(text), std::nullopt) << text;
  }
}

TEST(ModuleArchitecturesTest, AFatModuleTakesEveryGpuOfTheTable) {
  for (const char* capability :
       {"7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0",
        "12.0", "12.1", "13.0"}) {
    EXPECT_TRUE(Takes(kFat, capability)) << capability;
  }
  EXPECT_FALSE(Takes(kFat, "7.0"));
  EXPECT_FALSE(Takes(kFat, "6.1"));
}

TEST(ModuleArchitecturesTest, MachineCodeIsForItsMajorVersionAndUpwards) {
  const ModuleArchitectures only = {{86}, {}};
  EXPECT_TRUE(Takes(only, "8.6"));
  EXPECT_TRUE(Takes(only, "8.9"));
  EXPECT_FALSE(Takes(only, "8.0"));
  EXPECT_FALSE(Takes(only, "9.0"));
  EXPECT_FALSE(Takes(only, "7.6"));
}

TEST(ModuleArchitecturesTest, MachineCodeIsToldFromPtx) {
  const ModuleArchitectures both = {{86}, {80}};
  EXPECT_TRUE(HasMachineCode(both, 86));
  EXPECT_TRUE(HasMachineCode(both, 89));
  EXPECT_FALSE(HasMachineCode(both, 80));
  EXPECT_TRUE(RunsOn(both, 80));
  EXPECT_FALSE(HasMachineCode(both, 120));
  EXPECT_TRUE(RunsOn(both, 120));
  EXPECT_FALSE(RunsOn(both, 75));
  EXPECT_FALSE(RunsOn({}, 90));
}

TEST(ModuleArchitecturesTest, PtxIsForEveryLaterGpu) {
  const ModuleArchitectures only = {{}, {80}};
  EXPECT_TRUE(Takes(only, "8.0"));
  EXPECT_TRUE(Takes(only, "12.0"));
  EXPECT_FALSE(Takes(only, "7.5"));
}

TEST(ModuleArchitecturesTest, ARefusalNamesTheGpuWhatIsThereAndTheRemedy) {
  EXPECT_THAT(Refusal({{90}, {90}}, "Tesla T4", "7.5"),
              AllOf(HasSubstr("Tesla T4 has compute capability 7.5"),
                    HasSubstr("has kernels for 9.0, and 9.0 as PTX;"),
                    HasSubstr("-DGPUPOOL_CUDA_ARCHITECTURES=75")));
}

TEST(ModuleArchitecturesTest, WhatNoBuildCanTakeGetsNoAdviceToBuild) {
  EXPECT_THAT(Refusal(kFat, "Tesla V100", "7.0"),
              AllOf(HasSubstr("needs 7.5 or later"),
                    Not(HasSubstr("GPUPOOL_CUDA_ARCHITECTURES"))));
}

TEST(ModuleArchitecturesTest, ACapabilityThatIsNoneIsRefused) {
  EXPECT_THAT(Refusal(kFat, "a GPU", "new"), HasSubstr("\"new\""));
}

TEST(ModuleArchitecturesTest, TextsSayWhatIsThere) {
  EXPECT_EQ(ToText(kFat),
            "7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0, and 8.0 as PTX");
  EXPECT_EQ(ToText({{90}, {}}), "9.0");
  EXPECT_EQ(ToText({{}, {80}}), "8.0 as PTX");
  EXPECT_EQ(ToText({}), "nothing");
}

}  // namespace
}  // namespace gpupool::engine
