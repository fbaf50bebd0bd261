#include "server/serving/decoupled/repeat_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/serving/served_model.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RepeatModelsTest : public ::testing::Test {
 protected:
  WakeTimer timer_;
  ModelRegistry registry_;
  RepeatModels models_{{.registry = &registry_, .timer = &timer_}};
};

TEST_F(RepeatModelsTest, ADefinedModelIsServedAtOnce) {
  ASSERT_TRUE(models_.Define("r", 3).ok());
  const VersionHandle served = registry_.FindNewest("r");
  ASSERT_NE(served, nullptr);
  EXPECT_EQ(served->facts().version, 3u);
  EXPECT_TRUE(served->facts().decoupled);
  EXPECT_EQ(served->facts().own_backend, "repeat");
  EXPECT_FALSE(served->has_batcher());
  EXPECT_THAT(models_.Names(), ElementsAre("r"));
  ASSERT_EQ(models_.Rows().size(), 1u);
  EXPECT_EQ(models_.Rows()[0].state(), v1::READY);
}

TEST_F(RepeatModelsTest, TheSameDefinitionChangesNothing) {
  ASSERT_TRUE(models_.Define("r", 1).ok());
  const uint64_t id = registry_.FindNewest("r")->facts().id;
  ASSERT_TRUE(models_.Define("r", 1).ok());
  EXPECT_EQ(registry_.FindNewest("r")->facts().id, id);
}

TEST_F(RepeatModelsTest, AnotherVersionReplacesTheFirst) {
  ASSERT_TRUE(models_.Define("r", 2).ok());
  ASSERT_TRUE(models_.Define("r", 1).ok());
  ASSERT_EQ(registry_.List("r").size(), 1u);
  EXPECT_EQ(registry_.List("r")[0]->facts().version, 1u);
}

TEST_F(RepeatModelsTest, ARemovedModelIsGoneWhenItIsDrained) {
  ASSERT_TRUE(models_.Define("r", 1).ok());
  VersionHandle held = registry_.FindNewest("r");
  bool drained = false;
  models_.Remove("r", [&] { drained = true; });
  EXPECT_EQ(registry_.FindNewest("r"), nullptr);
  EXPECT_FALSE(models_.Has("r"));
  EXPECT_FALSE(drained);
  held = nullptr;
  EXPECT_TRUE(drained);
  EXPECT_THAT(models_.Rows(), IsEmpty());
}

TEST_F(RepeatModelsTest, TheNameOfALoadedModelIsRefused) {
  registry_.Add(MakeServedVersion("r", 1, 5, &timer_));
  const absl::Status defined = models_.Define("r", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(defined));
  EXPECT_THAT(std::string(defined.message()), HasSubstr("rename the folder"));
}

TEST_F(RepeatModelsTest, AModelThatAnotherOneReplacedSaysSo) {
  ASSERT_TRUE(models_.Define("r", 1).ok());
  registry_.Add(MakeServedVersion("r", 1, 5, &timer_));
  ASSERT_EQ(models_.Rows().size(), 1u);
  EXPECT_EQ(models_.Rows()[0].state(), v1::LOAD_FAILED);
}

}  // namespace
}  // namespace gpupool::server
