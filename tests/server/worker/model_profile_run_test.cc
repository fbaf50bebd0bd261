#include "server/worker/model_profile_run.h"

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "server/worker/turnstile.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using testing_engine::DigestOfStep;
using testing_engine::FakeEngine;
using ProfileResult = absl::StatusOr<worker::v1::ProfileReply>;

constexpr uint64_t kVersion = 5;

class ModelProfileRunTest : public ::testing::Test {
 protected:
  void RunTasks() {
    thread_ = std::thread([this] { turnstile_.Run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    turnstile_.Drain();
    thread_.join();
  }
  void Load() {
    turnstile_.Post([this] {
      worker::v1::LoadVersion request;
      request.set_version_id(kVersion);
      EXPECT_TRUE(turnstile_.models().Load(request).ok());
    });
  }
  std::future<ProfileResult> Profile(uint32_t requests, uint32_t rows = 0) {
    auto result = std::make_shared<std::promise<ProfileResult>>();
    std::future<ProfileResult> future = result->get_future();
    worker::v1::ProfileModel request;
    request.set_version_id(kVersion);
    request.set_requests(requests);
    request.set_rows(rows);
    run_.Start(request, [result](ProfileResult reply) {
      result->set_value(std::move(reply));
    });
    return future;
  }

  FakeEngine engine_;
  Turnstile turnstile_{&engine_, [](worker::v1::Report) {}};
  ModelProfileRun run_{&turnstile_};
  std::thread thread_;
};

TEST_F(ModelProfileRunTest, ComputesAllRequestsAndTakesTheTrace) {
  Load();
  auto profile = Profile(3);
  RunTasks();
  const ProfileResult reply = profile.get();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->sha256(), DigestOfStep(3));
  EXPECT_EQ(reply->bytes(), 4u);
  EXPECT_EQ(reply->steps(), 3u);
}

TEST_F(ModelProfileRunTest, AVersionThatIsNotLoadedIsNotFound) {
  auto profile = Profile(3);
  RunTasks();
  EXPECT_TRUE(absl::IsNotFound(profile.get().status()));
}

TEST_F(ModelProfileRunTest, AVersionThatIsUnloadedMeanwhileEndsTheProfile) {
  Load();
  auto profile = Profile(100);
  turnstile_.Post([this] {  // after the first task of the profile
    EXPECT_TRUE(turnstile_.models().Unload(kVersion).ok());
  });
  RunTasks();
  EXPECT_TRUE(absl::IsNotFound(profile.get().status()));
}

TEST_F(ModelProfileRunTest, ErrorsOfTheModelEndTheProfile) {
  Load();
  auto profile = Profile(1, /*rows=*/9);
  RunTasks();
  EXPECT_TRUE(absl::IsInvalidArgument(profile.get().status()));
}

}  // namespace
}  // namespace gpupool::server
