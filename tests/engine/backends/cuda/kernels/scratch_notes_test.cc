#include "engine/backends/cuda/kernels/scratch_notes.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::cuda {
namespace {

class ScratchNotesTest : public ::testing::Test {
 protected:
  int Files() const {
    int files = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(folder_.path())) {
      ++files;
    }
    return files;
  }

  const ScratchFolder folder_;
};

TEST_F(ScratchNotesTest, AnotherProcessFindsWhatWasNoted) {
  PlanCache owner(folder_.path()), planner(folder_.path());
  EXPECT_EQ(FindScratch(planner, "a"), std::nullopt);
  NoteScratch(owner, "a", 0);
  NoteScratch(owner, "b", uint64_t{1} << 40);
  EXPECT_EQ(FindScratch(planner, "a"), 0u);
  EXPECT_EQ(FindScratch(planner, "b"), uint64_t{1} << 40);
}

TEST_F(ScratchNotesTest, APlanOfTheSameKeyIsSomethingElse) {
  PlanCache cache(folder_.path());
  cache.Put("a", "a plan");
  EXPECT_EQ(FindScratch(cache, "a"), std::nullopt);
  NoteScratch(cache, "a", 7);
  EXPECT_EQ(*cache.Find("a"), "a plan");
  EXPECT_EQ(Files(), 2);
}

TEST_F(ScratchNotesTest, TheNewestNoteCounts) {
  PlanCache cache(folder_.path());
  NoteScratch(cache, "a", 7);
  NoteScratch(cache, "a", 7);
  NoteScratch(cache, "a", 9);
  EXPECT_EQ(FindScratch(cache, "a"), 9u);
  PlanCache later(folder_.path());
  EXPECT_EQ(FindScratch(later, "a"), 9u);
}

}  // namespace
}  // namespace gpupool::engine::cuda
