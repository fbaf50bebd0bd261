#include "client/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client/client.h"
#include "tests/client/testing/fake_server.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() {
    client_ = *Client::Create({.address = server_.address()});
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.jobs[1].set_id(1);
    for (uint64_t i = 1; i <= 4; ++i) {
      server_.state.events[1].push_back(ProgressEvent(i, i, 5));
    }
  }

  void EndJob() {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[1].push_back(StateEvent(5, v1::SUCCEEDED));
  }

  void WaitUntilWatched() {
    EXPECT_TRUE(WaitUntil([&] {
      absl::MutexLock lock(&server_.state.mutex);
      return server_.state.calls["WatchJob"] > 0;
    }));
  }

  absl::Status Watch(const WatchOptions& options, std::stop_token stop = {}) {
    return WatchJob(*client_, 1, options, stop,
                    [this](const v1::JobEvent& event) {
                      seen_.push_back(event.sequence());
                      has_seen_ = true;
                      return true;
                    });
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  std::vector<uint64_t> seen_;
  std::atomic<bool> has_seen_ = false;
};

TEST_F(WatchTest, SeesEveryEventUntilTheJobEnds) {
  EndJob();
  EXPECT_TRUE(Watch({}).ok());
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(WatchTest, GoesOnBehindTheLastEventAfterABreak) {
  EndJob();
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.break_after = 2;
  }
  int reconnects = 0;
  WatchOptions options;
  options.on_reconnect = [&](const absl::Status&) { ++reconnects; };
  EXPECT_TRUE(Watch(options).ok());
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(reconnects, 1);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_THAT(server_.state.watched_after, ElementsAre(0, 2));
}

TEST_F(WatchTest, SurvivesARestartOfTheServer) {
  std::thread restart([this] {
    // A watch that has seen no event ends when the connection breaks.
    EXPECT_TRUE(WaitUntil([this] { return has_seen_.load(); }));
    server_.Stop();
    EndJob();
    LetOthersRun(absl::Milliseconds(200));
    server_.Start();
  });
  EXPECT_TRUE(Watch({}).ok());
  restart.join();
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(WatchTest, StartsBehindTheGivenSequence) {
  EndJob();
  EXPECT_TRUE(Watch({.after_sequence = 3}).ok());
  EXPECT_THAT(seen_, ElementsAre(4, 5));
}

TEST_F(WatchTest, EndsWhenAsked) {
  std::stop_source stop;
  std::thread asker([&] {
    WaitUntilWatched();
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(Watch({}, stop.get_token())));
  asker.join();
}

TEST_F(WatchTest, EndsWhenTheCallerHasSeenEnough) {
  EXPECT_TRUE(WatchJob(*client_, 1, {}, {}, [](const v1::JobEvent& event) {
                return event.sequence() < 2;
              }).ok());
}

TEST_F(WatchTest, FailsAtOnceWithoutAServer) {
  server_.Stop();
  bool tried_again = false;
  WatchOptions options;
  options.on_reconnect = [&](const absl::Status&) { tried_again = true; };
  EXPECT_TRUE(absl::IsUnavailable(Watch(options)));
  EXPECT_FALSE(tried_again);
}

TEST_F(WatchTest, GivesUpWhenTheServerStaysAway) {
  server_.Stop();
  EXPECT_TRUE(absl::IsUnavailable(Watch(
      {.reconnect_window = absl::Milliseconds(300), .fail_fast = false})));
}

TEST_F(WatchTest, ReturnsTheServersError) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["WatchJob"] = {absl::NotFoundError("no job 1")};
  }
  EXPECT_TRUE(absl::IsNotFound(Watch({})));
}

TEST(IsFinalTest, OnlyEndedStates) {
  EXPECT_TRUE(IsFinal(v1::SUCCEEDED));
  EXPECT_TRUE(IsFinal(v1::FAILED));
  EXPECT_TRUE(IsFinal(v1::CANCELLED));
  EXPECT_FALSE(IsFinal(v1::CANCELLING));
  EXPECT_FALSE(IsFinal(v1::QUEUED));
}

}  // namespace
}  // namespace gpupool::client
