#include "server/worker/gpu_facts_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

const engine::DeviceFacts kFacts{.name = "NVIDIA \"H200\"",
                                 .uuid = "GPU-1",
                                 .pci_bus_id = "0000:3b:00.0",
                                 .compute_capability = "9.0",
                                 .multiprocessors = 132,
                                 .threads_per_multiprocessor = 2048,
                                 .total_bytes = uint64_t{140} << 30,
                                 .driver_version = "580.65.06",
                                 .cuda_version = "13.0",
                                 .properties = "{\"deviceVer\": 900}"};

TEST(GpuFactsTextTest, WhatPlansNeedComesBack) {
  nlohmann::json gpu = ToJson(kFacts);
  gpu["links"] = {"", "NVL"};
  const auto facts = ParseGpuFacts(gpu.dump());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->name, kFacts.name);
  EXPECT_EQ(facts->uuid, kFacts.uuid);
  EXPECT_EQ(facts->pci_bus_id, kFacts.pci_bus_id);
  EXPECT_EQ(facts->compute_capability, kFacts.compute_capability);
  EXPECT_EQ(facts->multiprocessors, kFacts.multiprocessors);
  EXPECT_EQ(facts->threads_per_multiprocessor,
            kFacts.threads_per_multiprocessor);
  EXPECT_EQ(facts->total_bytes, kFacts.total_bytes);
  EXPECT_EQ(facts->driver_version, kFacts.driver_version);
  EXPECT_EQ(facts->cuda_version, kFacts.cuda_version);
  EXPECT_EQ(facts->properties, kFacts.properties);
}

TEST(GpuFactsTextTest, EveryMemberIsNeededAndChecked) {
  const nlohmann::json whole = ToJson(kFacts);
  for (const auto& [name, value] : whole.items()) {
    for (const nlohmann::json& wrong :
         {nlohmann::json(), nlohmann::json(-1), nlohmann::json(1.5)}) {
      nlohmann::json gpu = whole;
      gpu[name] = wrong;
      const auto facts = ParseGpuFacts(gpu.dump());
      EXPECT_TRUE(absl::IsInvalidArgument(facts.status())) << name;
      EXPECT_THAT(std::string(facts.status().message()), HasSubstr(name));
    }
    nlohmann::json gpu = whole;
    gpu.erase(name);
    EXPECT_FALSE(ParseGpuFacts(gpu.dump()).ok()) << name;
  }
  nlohmann::json gpu = whole;
  gpu["multiprocessors"] = uint64_t{1} << 32;
  EXPECT_FALSE(ParseGpuFacts(gpu.dump()).ok());
}

TEST(GpuFactsTextTest, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "7"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseGpuFacts(text).status())) << text;
  }
}

}  // namespace
}  // namespace gpupool::server
