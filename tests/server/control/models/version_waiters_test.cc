#include "server/control/models/version_waiters.h"

#include <gtest/gtest.h>

#include <optional>

#include "gpupool/v1/model.pb.h"
#include "server/control/records/ledger.h"

namespace gpupool::server {
namespace {

class VersionWaitersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t id : {1, 2}) {
      v1::ModelVersion version;
      version.set_id(id);
      version.set_model("digits");
      version.set_version(id);
      version.set_state(v1::LOADING);
      version.set_device("cpu:0");
      ledger.AddVersion(version);
    }
  }
  void Wait(VersionWaiters::For what, std::vector<uint64_t> ids) {
    waiters.Add(what, std::move(ids),
                [this](const auto& answer) { got = answer; });
  }
  void Set(uint64_t id, v1::VersionState state) {
    ledger.FindVersion(id)->set_state(state);
    waiters.Check(ledger, {id});
  }

  Ledger ledger;
  VersionWaiters waiters;
  std::optional<absl::StatusOr<v1::ModelVersion>> got;
};

TEST_F(VersionWaitersTest, AnswersWhenReady) {
  Wait(VersionWaiters::For::kLoaded, {1});
  waiters.Check(ledger, {1, 2});
  EXPECT_FALSE(got.has_value()) << "it is still being loaded";
  Set(1, v1::READY);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ((*got)->id(), 1u);
}

TEST_F(VersionWaitersTest, AVersionThatFindsNoRoomIsWaitedFor) {
  ledger.FindVersion(1)->clear_device();
  ledger.FindVersion(1)->set_error("waits for 50 B");
  Wait(VersionWaiters::For::kLoaded, {1});
  waiters.Check(ledger, {1});
  EXPECT_FALSE(got.has_value());
  Set(1, v1::UNLOADED);
  ASSERT_TRUE(got.has_value()) << "somebody else unloaded it";
}

TEST_F(VersionWaitersTest, WaitsForAllAndAnswersWithTheLast) {
  ledger.FindVersion(1)->set_state(v1::UNLOADING);
  ledger.FindVersion(2)->set_state(v1::UNLOADING);
  Wait(VersionWaiters::For::kUnloaded, {1, 2});
  Set(1, v1::UNLOADED);
  EXPECT_FALSE(got.has_value());
  Set(2, v1::UNLOADED);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ((*got)->id(), 2u);
}

TEST_F(VersionWaitersTest, AVersionThatIsLoadedAgainWasUnloaded) {
  Set(1, v1::UNLOADING);
  Wait(VersionWaiters::For::kUnloaded, {1});
  waiters.Check(ledger, {1});
  EXPECT_FALSE(got.has_value());
  Set(1, v1::LOADING);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ((*got)->state(), v1::LOADING);
}

TEST_F(VersionWaitersTest, ADeletedVersionIsNotFound) {
  Wait(VersionWaiters::For::kLoaded, {1});
  ledger.RemoveVersion(1);
  waiters.Check(ledger, {1});
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(absl::IsNotFound(got->status()));
}

TEST_F(VersionWaitersTest, NobodyIsForgottenAtTheEnd) {
  Wait(VersionWaiters::For::kLoaded, {1});
  waiters.FailAll(absl::UnavailableError("stopping"));
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(absl::IsUnavailable(got->status()));
}

}  // namespace
}  // namespace gpupool::server
