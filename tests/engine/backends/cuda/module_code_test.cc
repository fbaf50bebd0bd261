#include "engine/backends/cuda/module_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>

namespace gpupool::engine::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint16_t kPtx = 1;
constexpr uint16_t kMachine = 2;

template <typename Number>
void Put(std::string& bytes, size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof(number));
}

std::string Entry(uint16_t kind, uint32_t capability, size_t bytes = 24) {
  std::string entry(64 + bytes, '\0');
  Put(entry, 0, kind);
  Put(entry, 4, uint32_t{64});
  Put(entry, 8, uint64_t{bytes});
  Put(entry, 28, capability);
  return entry;
}

std::string Container(const std::string& entries) {
  std::string container(16, '\0');
  Put(container, 0, uint32_t{0xBA55ED50});
  Put(container, 4, uint16_t{1});
  Put(container, 6, uint16_t{16});
  Put(container, 8, uint64_t{entries.size()});
  return container + entries;
}

TEST(ModuleCodeTest, EveryCapabilityIsToldOnce) {
  const std::string section =
      Container(Entry(kMachine, 90) + Entry(kMachine, 80)) +
      std::string(8, '\0') + Container(Entry(kMachine, 90) + Entry(kPtx, 120));
  const ModuleCode code = ParseFatBinary(section);
  EXPECT_THAT(code.machine, ElementsAre(80, 90));
  EXPECT_THAT(code.portable, ElementsAre(120));
}

TEST(ModuleCodeTest, StopsWhereBytesAreMissing) {
  const std::string whole = Container(Entry(kMachine, 90));
  for (size_t size = 0; size < whole.size(); ++size) {
    const ModuleCode code = ParseFatBinary(whole.substr(0, size));
    EXPECT_THAT(code.machine, IsEmpty()) << size;
  }
  std::string wrong = whole;
  Put(wrong, 16 + 4, uint32_t{8});  // a header that is too short
  EXPECT_THAT(ParseFatBinary(wrong).machine, IsEmpty());
  Put(wrong, 16 + 4, uint32_t{64});
  Put(wrong, 16 + 8, ~uint64_t{0});
  EXPECT_THAT(ParseFatBinary(wrong).machine, IsEmpty());
}

TEST(ModuleCodeTest, MachineCodeRunsOnItsMajorVersion) {
  const ModuleCode code = {{80, 90}, {}};
  EXPECT_TRUE(code.RunsOn(80));
  EXPECT_TRUE(code.RunsOn(89));
  EXPECT_TRUE(code.RunsOn(90));
  EXPECT_FALSE(code.RunsOn(75));
  EXPECT_FALSE(code.RunsOn(100));
}

TEST(ModuleCodeTest, PtxRunsOnWhatCameLater) {
  const ModuleCode code = {{90}, {90}};
  EXPECT_TRUE(code.RunsOn(120));
  EXPECT_FALSE(code.IsCompiledFor(120));
  EXPECT_TRUE(code.IsCompiledFor(90));
  EXPECT_FALSE(code.RunsOn(80));
}

TEST(ModuleCodeTest, ALibraryWithoutCudaCodeHasNone) {
  const auto code = ReadModuleCode(GPUPOOL_FAKE_LIBCUDA);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT(code->machine, IsEmpty());
  EXPECT_THAT(code->portable, IsEmpty());
}

TEST(ModuleCodeTest, WhatIsNoLibraryIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(ReadModuleCode("/no/where").status()));
  const std::string path = ::testing::TempDir() + "/text.so";
  std::ofstream(path) << std::string(200, 'x');
  EXPECT_TRUE(absl::IsDataLoss(ReadModuleCode(path).status()));
}

}  // namespace
}  // namespace gpupool::engine::cuda
