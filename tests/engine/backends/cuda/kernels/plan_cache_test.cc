#include "engine/backends/cuda/kernels/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::cuda {
namespace {

namespace fs = std::filesystem;

class PlanCacheTest : public ::testing::Test {
 protected:
  PlanCacheTest()
      : folder_(absl::StrCat(
            ::testing::TempDir(), "/plans_",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
  }
  ~PlanCacheTest() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), {}));
  }
  fs::path only_file() const { return fs::directory_iterator(folder_)->path(); }

  const std::string folder_;
};

TEST_F(PlanCacheTest, AnotherProcessFindsWhatWasPut) {
  PlanCache(folder_).Put("h200 conv", std::string("plan\0bytes", 10));
  PlanCache other(folder_);
  EXPECT_EQ(*other.Find("h200 conv"), std::string("plan\0bytes", 10));
  EXPECT_EQ(other.Find("h100 conv").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PlanCacheTest, ALaterPlanReplacesAnEarlierOne) {
  PlanCache cache(folder_);
  cache.Put("key", "old");
  cache.Put("key", "new");
  EXPECT_EQ(*cache.Find("key"), "new");
  EXPECT_EQ(*PlanCache(folder_).Find("key"), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(PlanCacheTest, EveryChangedByteMakesAFileWorthless) {
  PlanCache(folder_).Put("key", "plan");
  const std::string path = only_file();
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    std::ofstream(path, std::ios::binary) << broken;
    EXPECT_FALSE(PlanCache(folder_).Find("key").ok()) << "byte " << i;
    EXPECT_FALSE(fs::exists(path)) << "byte " << i;
  }
}

TEST_F(PlanCacheTest, ACutFileIsWorthless) {
  PlanCache(folder_).Put("key", "plan");
  const fs::path path = only_file();
  const auto size = fs::file_size(path);
  for (uintmax_t left = 0; left < size; ++left) {
    PlanCache(folder_).Put("key", "plan");
    fs::resize_file(path, left);
    EXPECT_FALSE(PlanCache(folder_).Find("key").ok()) << left << " bytes";
  }
}

TEST_F(PlanCacheTest, AFileOfAnotherKeyIsNotTaken) {
  PlanCache(folder_).Put("one", "plan");
  const fs::path one = only_file();
  PlanCache(folder_).Put("two", "other");
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (file.path() != one) {
      fs::copy_file(one, file.path(), fs::copy_options::overwrite_existing);
    }
  }
  EXPECT_FALSE(PlanCache(folder_).Find("two").ok());
  EXPECT_EQ(*PlanCache(folder_).Find("one"), "plan");
}

TEST_F(PlanCacheTest, OldFilesGoWhenThereAreTooMany) {
  PlanCache cache(folder_, {.plans = 3});
  for (int i = 0; i < 10; ++i) cache.Put(absl::StrCat("key ", i), "plan");
  EXPECT_EQ(files(), 3u);
}

TEST_F(PlanCacheTest, APlanThatIsTooLargeIsNotKept) {
  PlanCache cache(folder_, {.plan_bytes = 4});
  cache.Put("key", "12345");
  EXPECT_FALSE(cache.Find("key").ok());
  cache.Put("key", "1234");
  EXPECT_TRUE(cache.Find("key").ok());
}

TEST_F(PlanCacheTest, ForgottenPlansAreGone) {
  PlanCache cache(folder_);
  cache.Put("key", "plan");
  cache.Forget("key");
  EXPECT_FALSE(cache.Find("key").ok());
  EXPECT_EQ(files(), 0u);
}

TEST_F(PlanCacheTest, WithoutAFolderPlansStayInMemory) {
  PlanCache cache("");
  cache.Put("key", "plan");
  EXPECT_EQ(*cache.Find("key"), "plan");
}

TEST_F(PlanCacheTest, AFolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder_) << "a file";
  PlanCache cache(folder_);
  cache.Put("key", "plan");
  EXPECT_EQ(*cache.Find("key"), "plan");
}

}  // namespace
}  // namespace gpupool::engine::cuda
