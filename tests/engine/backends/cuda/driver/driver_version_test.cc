#include "engine/backends/cuda/driver/driver_version.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::cuda {
namespace {

std::string VersionOf(const std::string& text) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/version";
  std::ofstream(file) << text;
  return LoadedDriverVersion(file);
}

TEST(DriverVersionTest, IsTheFirstWord) {
  EXPECT_EQ(VersionOf("580.65.06\n"), "580.65.06");
  EXPECT_EQ(VersionOf("580.65.06"), "580.65.06");
  EXPECT_EQ(VersionOf("580 open"), "580");
}

TEST(DriverVersionTest, IsEmptyWhereNobodyTells) {
  EXPECT_EQ(VersionOf(""), "");
  EXPECT_EQ(VersionOf("\n"), "");
  EXPECT_EQ(LoadedDriverVersion("/nowhere/version"), "");
}

TEST(DriverVersionTest, IsBounded) {
  EXPECT_EQ(VersionOf(std::string(1000, '5')), std::string(64, '5'));
}

}  // namespace
}  // namespace gpupool::engine::cuda
