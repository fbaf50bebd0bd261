#include "engine/backends/cuda/driver/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kFake = GPUPOOL_FAKE_NVML;

TEST(SharedLibraryTest, IsFoundInAnyOfTheFolders) {
  const std::string folders =
      absl::StrCat("/nowhere:", kFake.parent_path().string(), ":/else");
  const auto library = SharedLibrary::Open(kFake.filename(), folders);
  ASSERT_TRUE(library.ok()) << library.status();
  int (*init)() = nullptr;
  ASSERT_TRUE(library->Find({{"nvmlInit_v2", init}}).ok());
  EXPECT_EQ(init(), 0);
}

TEST(SharedLibraryTest, AMissingOneIsNamedWithWhereItWasLookedFor) {
  const auto library = SharedLibrary::Open("libnone.so.7", "/nowhere");
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("libnone.so.7"), HasSubstr("/nowhere")));
}

TEST(SharedLibraryTest, AMissingFunctionIsNamed) {
  const auto library =
      SharedLibrary::Open(kFake.filename(), kFake.parent_path());
  ASSERT_TRUE(library.ok()) << library.status();
  int (*none)() = nullptr;
  const absl::Status found = library->Find({{"nvmlNone", none}});
  EXPECT_EQ(found.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(found.message()), HasSubstr("nvmlNone"));
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace gpupool::engine::cuda
