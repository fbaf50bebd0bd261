#include "engine/collective/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class RendezvousTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  MemoryRendezvous memory_;
  FolderRendezvous files_{folder_.path()};
  std::vector<RendezvousStore*> stores_ = {&memory_, &files_};
};

TEST_F(RendezvousTest, AKeyIsWrittenOnce) {
  const std::string bytes("a\0\n\xff", 4);
  for (RendezvousStore* store : stores_) {
    EXPECT_TRUE(absl::IsNotFound(store->Get("job-1.mesh.0").status()));
    ASSERT_TRUE(store->Set("job-1.mesh.0", bytes).ok());
    EXPECT_EQ(*store->Get("job-1.mesh.0"), bytes);
    const absl::Status again = store->Set("job-1.mesh.0", "other");
    EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
    EXPECT_EQ(*store->Get("job-1.mesh.0"), bytes);
  }
}

TEST_F(RendezvousTest, RefusesKeysThatCouldBePaths) {
  for (RendezvousStore* store : stores_) {
    for (const std::string& key :
         {std::string(), std::string("../x"), std::string("a/b"),
          std::string(".x"), std::string("a\0b", 3), std::string(129, 'k')}) {
      EXPECT_TRUE(absl::IsInvalidArgument(store->Set(key, "x"))) << key;
      EXPECT_TRUE(absl::IsInvalidArgument(store->Get(key).status())) << key;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(
        store->Set("large", std::string(kMaxRendezvousBytes + 1, 'x'))));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RendezvousTest, OneOfManyWritersWinsAndLeavesNoDraft) {
  for (RendezvousStore* store : stores_) {
    std::vector<std::thread> writers;
    std::vector<int> won(8, 0);
    for (size_t i = 0; i < won.size(); ++i) {
      writers.emplace_back([store, &won, i] {
        won[i] = store->Set("key", std::string(10000, char('a' + i))).ok();
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(std::count(won.begin(), won.end(), 1), 1);
    const std::string text = *store->Get("key");
    EXPECT_EQ(text.size(), 10000u);
    EXPECT_TRUE(won[static_cast<size_t>(text[0] - 'a')]);
  }
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename().string(), "key");
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(RendezvousTest, AFolderThatIsGoneIsAnErrorWithItsName) {
  FolderRendezvous gone(folder_.path() + "/absent");
  const absl::Status status = gone.Set("key", "x");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("absent"));
  EXPECT_TRUE(absl::IsNotFound(gone.Get("key").status()));
}

}  // namespace
}  // namespace gpupool::engine
