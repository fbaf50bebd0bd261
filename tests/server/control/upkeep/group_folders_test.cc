#include "server/control/upkeep/group_folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "scheduler/state/state_editor.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

namespace fs = std::filesystem;
using scheduler::AttemptRef;
using scheduler::JobId;

class GroupFoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device = state.AddDevice("cpu:0", "cpu", 100);
    scheduler::Job job;
    job.id = JobId(7);
    job.state = scheduler::JobState::kRunning;
    job.attempt = 2;
    job.ranks = {{device}};
    state.RestoreJob(job);
  }
  // Makes a file that a rank has left there.
  void Leave(const std::string& folder) {
    fs::create_directories(folder);
    std::ofstream(folder + "/rank-0") << "here";
  }

  const AttemptRef live{JobId(7), 2};
  const AttemptRef over{JobId(7), 1};
  TempDir temp;
  const std::string root = temp / "groups";
  scheduler::State state;
  scheduler::DeviceId device;
};

TEST_F(GroupFoldersTest, MakesAFolderForTheUserAloneAndTheSameAgain) {
  GroupFolders folders(root);
  const auto path = folders.Make(live);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, root + "/7-2");
  EXPECT_EQ(fs::status(*path).permissions(), fs::perms::owner_all);
  EXPECT_EQ(*folders.Make(live), *path);
}

TEST_F(GroupFoldersTest, AFolderGoesWithItsAttempt) {
  GroupFolders folders(root);
  const std::string kept = *folders.Make(live);
  const std::string gone = *folders.Make(over);
  Leave(gone);
  folders.RemoveUnneeded(state);
  EXPECT_TRUE(fs::exists(kept));
  EXPECT_FALSE(fs::exists(gone));
}

TEST_F(GroupFoldersTest, AnAttemptThatIsStillStoppingKeepsItsFolder) {
  GroupFolders folders(root);
  const std::string kept = *folders.Make(over);
  scheduler::StateEditor edit(state);
  edit.AddStray(*edit.FindDevice(device), over, 10);
  folders.RemoveUnneeded(state);
  EXPECT_TRUE(fs::exists(kept));
  edit.RemoveStray(*edit.FindDevice(device), over);
  folders.RemoveUnneeded(state);
  EXPECT_FALSE(fs::exists(kept));
}

TEST_F(GroupFoldersTest, WhatAnEarlierServerLeftIsRemovedUnlessItRuns) {
  Leave(root + "/7-1");
  Leave(root + "/7-2");
  Leave(root + "/notes");
  GroupFolders folders(root);
  folders.RemoveUnneeded(state);
  EXPECT_FALSE(fs::exists(root + "/7-1"));
  EXPECT_TRUE(fs::exists(root + "/7-2"));
  EXPECT_TRUE(fs::exists(root + "/notes")) << "nobody's folder is left alone";
}

TEST_F(GroupFoldersTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(root) << "a file";
  GroupFolders folders(root);
  const auto path = folders.Make(live);
  EXPECT_TRUE(absl::IsUnavailable(path.status()));
  EXPECT_NE(std::string(path.status().message()).find(root), std::string::npos);
}

}  // namespace
}  // namespace gpupool::server
