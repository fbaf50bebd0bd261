#include "server/repository/folder_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ModelFolder Folder(const std::string& name, uint64_t bytes) {
  ModelFolder model;
  model.name = name;
  model.versions = {
      {.number = 1, .files = {{.name = kModelFileName, .bytes = bytes}}}};
  return model;
}

RepositoryLook LookOf(std::vector<ModelFolder> models) {
  RepositoryLook look;
  look.models = std::move(models);
  return look;
}

class FolderHistoryTest : public ::testing::Test {
 protected:
  std::vector<std::string> Next(const RepositoryLook& look) {
    std::vector<std::string> names;
    for (const ModelFolder& model : history_.Next(look)) {
      names.push_back(model.name);
    }
    return names;
  }
  FolderHistory history_;
};

TEST_F(FolderHistoryTest, AModelIsDueAtTheSecondEqualLook) {
  EXPECT_THAT(Next(LookOf({Folder("a", 1)})), IsEmpty());
  EXPECT_THAT(Next(LookOf({Folder("a", 1)})), ElementsAre("a"));
}

TEST_F(FolderHistoryTest, AFileThatGrowsIsNotDue) {
  for (uint64_t bytes = 1; bytes < 5; ++bytes) {
    EXPECT_THAT(Next(LookOf({Folder("a", bytes), Folder("b", 1)})),
                SizeIs(bytes == 1 ? 0 : 1))
        << "b alone";
  }
  EXPECT_THAT(Next(LookOf({Folder("a", 4), Folder("b", 1)})),
              ElementsAre("a", "b"));
}

TEST_F(FolderHistoryTest, AModelIsBroughtOnceUntilItChanges) {
  Next(LookOf({Folder("a", 1)}));
  Next(LookOf({Folder("a", 1)}));
  history_.SetBrought(Folder("a", 1), false);
  EXPECT_THAT(Next(LookOf({Folder("a", 1)})), IsEmpty());
  EXPECT_THAT(Next(LookOf({Folder("a", 2)})), IsEmpty());
  EXPECT_THAT(Next(LookOf({Folder("a", 2)})), ElementsAre("a"));
}

TEST_F(FolderHistoryTest, TriesAreBoundedForTheSameFiles) {
  Next(LookOf({Folder("a", 1)}));
  for (int i = 0; i < FolderHistory::kMaxTries; ++i) {
    EXPECT_THAT(Next(LookOf({Folder("a", 1)})), ElementsAre("a")) << i;
    history_.SetBrought(Folder("a", 1), true);
  }
  EXPECT_FALSE(history_.HasRetries());
  EXPECT_THAT(Next(LookOf({Folder("a", 1)})), IsEmpty());
  Next(LookOf({Folder("a", 2)}));
  EXPECT_THAT(Next(LookOf({Folder("a", 2)})), ElementsAre("a"));
  history_.SetBrought(Folder("a", 2), true);
  EXPECT_TRUE(history_.HasRetries()) << "other files";
}

TEST_F(FolderHistoryTest, AModelIsGoneWhenTwoLooksMissIt) {
  Next(LookOf({Folder("a", 1)}));
  EXPECT_THAT(history_.Gone({"a", "b"}), ElementsAre("b"));
  Next(LookOf({}));
  EXPECT_THAT(history_.Gone({"a"}), IsEmpty());
  Next(LookOf({}));
  EXPECT_THAT(history_.Gone({"a"}), ElementsAre("a"));
}

TEST_F(FolderHistoryTest, AModelThatComesBackIsDue) {
  Next(LookOf({Folder("a", 1)}));
  Next(LookOf({Folder("a", 1)}));
  history_.SetBrought(Folder("a", 1), false);
  Next(LookOf({}));
  Next(LookOf({}));
  Next(LookOf({Folder("a", 1)}));
  EXPECT_THAT(Next(LookOf({Folder("a", 1)})), ElementsAre("a"));
}

TEST_F(FolderHistoryTest, NothingIsGoneWhileARootIsMissing) {
  RepositoryLook without;
  without.missing_roots = {"/models"};
  Next(LookOf({Folder("a", 1)}));
  Next(without);
  Next(without);
  EXPECT_THAT(history_.Gone({"a"}), IsEmpty());
  Next(LookOf({}));
  EXPECT_THAT(history_.Gone({"a"}), IsEmpty());
  Next(LookOf({}));
  EXPECT_THAT(history_.Gone({"a"}), ElementsAre("a"));
}

}  // namespace
}  // namespace gpupool::server
