#include "server/serving/router.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/served_model.h"

namespace gpupool::server {
namespace {

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    registry_.Add(MakeServedVersion("digits", 1, 10, &timer_));
    registry_.Add(MakeServedVersion("digits", 2, 20, &timer_));
    Store("digits", 1, v1::READY);
    Store("digits", 2, v1::READY);
    Store("digits", 3, v1::LOADING);
    Store("digits", 4, v1::UNLOADED);
    Store("idle", 1, v1::UNLOADED);
    Store("coming", 1, v1::LOADING);
    Store("lost", 1, v1::READY);  // its worker restarts
    SetIds("digits", {10, 20});
  }

  void Store(const std::string& model, uint64_t version,
             v1::VersionState state) {
    v1::Model& stored = stored_[model];
    stored.set_name(model);
    v1::ModelVersion* added = stored.add_versions();
    added->set_version(version);
    added->set_state(state);
  }
  void SetIds(const std::string& model, const std::vector<uint64_t>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      stored_[model].mutable_versions(static_cast<int>(i))->set_id(ids[i]);
    }
  }
  absl::StatusOr<v1::Model> Find(absl::string_view model) {
    const auto it = stored_.find(std::string(model));
    if (it == stored_.end()) return absl::NotFoundError("no such model");
    return it->second;
  }
  void ExpectError(absl::string_view model, absl::string_view version,
                   absl::StatusCode code, const std::string& text) {
    const auto routed = router_.Route(model, version);
    EXPECT_EQ(routed.status().code(), code) << routed.status();
    EXPECT_THAT(std::string(routed.status().message()),
                ::testing::HasSubstr(text));
  }

  WakeTimer timer_;
  ModelRegistry registry_;
  std::map<std::string, v1::Model> stored_;
  Router router_{&registry_,
                 [this](absl::string_view model) { return Find(model); }};
};

TEST_F(RouterTest, AnEmptyVersionMeansTheNewestThatIsReady) {
  EXPECT_EQ((*router_.Route("digits", ""))->facts().version, 2u);
  EXPECT_EQ((*router_.Route("digits", "1"))->facts().version, 1u);
}

TEST_F(RouterTest, AnUnknownModelIsNotFound) {
  ExpectError("cats", "", absl::StatusCode::kNotFound,
              "Request for unknown model: 'cats' is not found");
  ExpectError("cats", "1", absl::StatusCode::kNotFound,
              "Request for unknown model: 'cats' is not found");
}

TEST_F(RouterTest, AnUnknownVersionIsNotFound) {
  ExpectError("digits", "9", absl::StatusCode::kNotFound,
              "Request for unknown model: 'digits' version 9 is not found");
}

TEST_F(RouterTest, AKnownVersionThatIsNotServedIsUnavailable) {
  for (const char* version : {"3", "4"}) {
    ExpectError("digits", version, absl::StatusCode::kUnavailable,
                "is not at ready state");
  }
}

TEST_F(RouterTest, AModelWithoutServedVersionsIsNotFound) {
  ExpectError("idle", "", absl::StatusCode::kNotFound,
              "'idle' has no available versions");
}

TEST_F(RouterTest, AModelThatComesOrComesBackIsUnavailable) {
  ExpectError("coming", "", absl::StatusCode::kUnavailable,
              "'coming' version 1 is not at ready state");
  ExpectError("lost", "", absl::StatusCode::kUnavailable,
              "'lost' version 1 is not at ready state");
}

TEST_F(RouterTest, RequestsWaitForTheNewestVersionThatComesBack) {
  registry_.Suspend(10);
  registry_.Suspend(20);
  ExpectError("digits", "", absl::StatusCode::kUnavailable,
              "is not at ready state");
  const auto newest = router_.RouteToQueue("digits", "");
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ((*newest)->facts().version, 2u);
  const auto named = router_.RouteToQueue("digits", "1");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ((*named)->facts().version, 1u);
  registry_.Resume(10);
  EXPECT_EQ((*router_.RouteToQueue("digits", ""))->facts().version, 1u)
      << "a ready version answers before one that is awaited";
}

TEST_F(RouterTest, RequestsDoNotWaitForAVersionThatWillNotComeBack) {
  registry_.Suspend(10);
  registry_.Suspend(20);
  stored_["digits"].mutable_versions(1)->set_state(v1::LOAD_FAILED);
  EXPECT_TRUE(
      absl::IsUnavailable(router_.RouteToQueue("digits", "2").status()));
  EXPECT_EQ((*router_.RouteToQueue("digits", ""))->facts().version, 1u);
}

TEST_F(RouterTest, RequestsDoNotWaitForAVersionThatWasNeverReady) {
  for (const char* model : {"coming", "lost"}) {
    EXPECT_TRUE(absl::IsUnavailable(router_.RouteToQueue(model, "").status()));
  }
  EXPECT_TRUE(absl::IsNotFound(router_.RouteToQueue("cats", "").status()));
}

TEST_F(RouterTest, AVersionThatIsNoNumberIsInvalid) {
  for (const char* version :
       {"x", "-1", "0", "1.0", " 1", "99999999999999999999"}) {
    ExpectError("digits", version, absl::StatusCode::kInvalidArgument,
                std::string("failed to get model version from specified "
                            "version string '") +
                    version + "'");
  }
}

TEST_F(RouterTest, ACatalogueThatFailsIsPassedOn) {
  const Router router(&registry_, [](absl::string_view) {
    return absl::InternalError("disk");
  });
  EXPECT_TRUE(absl::IsInternal(router.Route("cats", "").status()));
  EXPECT_TRUE(router.Route("digits", "").ok());
}

}  // namespace
}  // namespace gpupool::server
