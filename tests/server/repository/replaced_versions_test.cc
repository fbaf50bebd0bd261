#include "server/repository/replaced_versions.h"

#include <gtest/gtest.h>

#include <optional>

namespace gpupool::server {
namespace {

class ReplacedVersionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::Model> Find(absl::string_view model) const {
    return replaced_.WithReplaced(
        model, [this](absl::string_view) { return stored_; });
  }
  // Stores version 1 of a model, with the id 10.
  void Store(v1::VersionState state) {
    v1::Model model;
    model.set_name("up");
    v1::ModelVersion& version = *model.add_versions();
    version.set_id(10);
    version.set_version(1);
    version.set_state(state);
    stored_ = model;
  }

  ReplacedVersions replaced_;
  absl::StatusOr<v1::Model> stored_ = absl::NotFoundError("no such model");
};

TEST_F(ReplacedVersionsTest, WithoutMarksTheStoreAnswers) {
  EXPECT_TRUE(absl::IsNotFound(Find("up").status()));
  Store(v1::UNLOADED);
  EXPECT_EQ(Find("up")->versions(0).state(), v1::UNLOADED);
}

TEST_F(ReplacedVersionsTest, AVersionThatIsReplacedIsLoading) {
  const ReplacedVersions::Mark mark(&replaced_, "up", 1);
  for (const auto state : {v1::UNLOADING, v1::UNLOADED, v1::LOAD_FAILED}) {
    Store(state);
    const auto model = Find("up");
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_EQ(model->versions_size(), 1);
    EXPECT_EQ(model->versions(0).state(), v1::LOADING);
    EXPECT_EQ(model->versions(0).id(), 0u) << "the new one has another id";
  }
}

TEST_F(ReplacedVersionsTest, AVersionThatIsNotStoredForAMomentIsLoading) {
  const ReplacedVersions::Mark mark(&replaced_, "up", 1);
  const auto model = Find("up");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "up");
  ASSERT_EQ(model->versions_size(), 1);
  EXPECT_EQ(model->versions(0).version(), 1u);
  EXPECT_EQ(model->versions(0).state(), v1::LOADING);
  EXPECT_TRUE(absl::IsNotFound(Find("other").status()));
}

TEST_F(ReplacedVersionsTest, AServedVersionAndOthersStayAsTheyAre) {
  const ReplacedVersions::Mark first(&replaced_, "up", 1);
  for (const auto state : {v1::READY, v1::LOADING}) {
    Store(state);
    EXPECT_EQ(Find("up")->versions(0).state(), state);
    EXPECT_EQ(Find("up")->versions(0).id(), 10u);
  }
  stored_ = absl::InternalError("disk");
  EXPECT_TRUE(absl::IsInternal(Find("up").status()));
}

TEST_F(ReplacedVersionsTest, AMarkEndsWithTheLastOfItsVersion) {
  Store(v1::UNLOADED);
  std::optional<ReplacedVersions::Mark> first;
  first.emplace(&replaced_, "up", 1);
  { const ReplacedVersions::Mark second(&replaced_, "up", 1); }
  EXPECT_EQ(Find("up")->versions(0).state(), v1::LOADING);
  first.reset();
  EXPECT_EQ(Find("up")->versions(0).state(), v1::UNLOADED);
}

TEST_F(ReplacedVersionsTest, AMarkOfNothingDoesNothing) {
  const ReplacedVersions::Mark mark(nullptr, "up", 1);
  EXPECT_TRUE(absl::IsNotFound(Find("up").status()));
}

}  // namespace
}  // namespace gpupool::server
