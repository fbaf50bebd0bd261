#include "server/api/rpc/stream_registry.h"

#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class Stream : public OpenStream {
 public:
  explicit Stream(StreamRegistry* registry) : registry_(registry) {}
  // Ends and leaves the registry from within, as a real stream may.
  void Stop(const absl::Status& status) override {
    stops.push_back(status);
    registry_->Remove(this);
  }
  void EndIdle(const absl::Status& status) override { idle = status; }
  void AwaitClient() { BeginWaitForClient(); }
  void ClientCame() { EndWaitForClient(); }

  absl::Status idle;
  std::vector<absl::Status> stops;

 private:
  StreamRegistry* registry_;
};

TEST(StreamRegistryTest, RefusesBeyondItsLimitUntilOneEnds) {
  StreamRegistry registry(2);
  auto a = std::make_shared<Stream>(&registry);
  auto b = std::make_shared<Stream>(&registry);
  auto c = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a, "uid a").ok());
  EXPECT_TRUE(registry.Add(b, "uid b").ok());
  EXPECT_EQ(registry.Add(c, "uid c").code(),
            absl::StatusCode::kResourceExhausted);
  registry.Remove(a.get());
  EXPECT_TRUE(registry.Add(c, "uid c").ok());
}

TEST(StreamRegistryTest, StopAllStopsEachOnceAndRefusesLaterOnes) {
  StreamRegistry registry(8);
  auto a = std::make_shared<Stream>(&registry);
  auto b = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a, "uid a").ok());
  EXPECT_TRUE(registry.Add(b, "uid b").ok());
  registry.StopAll();
  registry.StopAll();
  ASSERT_EQ(a->stops.size(), 1u);
  ASSERT_EQ(b->stops.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(a->stops[0]));
  EXPECT_TRUE(absl::IsUnavailable(registry.Add(a, "uid a")));
}

TEST(StreamRegistryTest, DoesNotKeepStreamsAlive) {
  StreamRegistry registry(8);
  auto a = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a, "uid a").ok());
  std::weak_ptr<Stream> weak = a;
  a.reset();
  EXPECT_TRUE(weak.expired());
  registry.StopAll();
}

TEST(StreamRegistryTest, OneCallerHasHalfOfThePlacesAndOthersTheRest) {
  StreamRegistry registry(5);
  EXPECT_EQ(registry.most_of_one(), 2u);
  std::vector<std::shared_ptr<Stream>> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(std::make_shared<Stream>(&registry));
    EXPECT_TRUE(registry.Add(open.back(), "token 7").ok());
  }
  auto more = std::make_shared<Stream>(&registry);
  const absl::Status refused = registry.Add(more, "token 7");
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("token 7 has the limit of one caller, 2 of the 5"));
  EXPECT_TRUE(registry.Add(more, "token 8").ok());
  registry.Remove(open.back().get());
  auto again = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(again, "token 7").ok()) << "a place is free again";
}

TEST(StreamRegistryTest, ARefusedStreamTakesNobodysPlace) {
  StreamRegistry registry(2);
  auto a = std::make_shared<Stream>(&registry);
  auto b = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a, "uid 1").ok());
  EXPECT_FALSE(registry.Add(b, "uid 1").ok());
  registry.Remove(b.get());
  EXPECT_FALSE(registry.Add(b, "uid 1").ok()) << "the first one is open";
}

TEST(StreamRegistryTest, TheOnlyPlaceIsForAnybody) {
  StreamRegistry registry(1);
  auto a = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a, "uid 1").ok());
}

class IdleStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(registry_.Add(stream_, "uid 1").ok()); }
  // Lets time pass, and the registry look.
  void Pass(absl::Duration time) {
    now_ += time;
    registry_.EndIdle();
  }

  // The clock does not go on by itself, so nothing happens between the steps.
  absl::Time now_ = absl::UnixEpoch();
  StreamRegistry registry_{8, absl::Hours(1), [this] { return now_; }};
  std::shared_ptr<Stream> stream_ = std::make_shared<Stream>(&registry_);
};

TEST_F(IdleStreamsTest, AStreamWhoseClientTakesNoStepIsEnded) {
  stream_->AwaitClient();
  registry_.EndIdle();
  Pass(absl::Minutes(59));
  EXPECT_TRUE(stream_->idle.ok());
  Pass(absl::Minutes(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream_->idle));
  EXPECT_THAT(std::string(stream_->idle.message()), HasSubstr("for 1h"));
}

TEST_F(IdleStreamsTest, EachStepOfTheClientGivesItTheWholeTimeAgain) {
  for (int step = 0; step < 5; ++step) {
    stream_->AwaitClient();
    registry_.EndIdle();
    Pass(absl::Minutes(59));
    stream_->ClientCame();
  }
  EXPECT_TRUE(stream_->idle.ok());
}

TEST_F(IdleStreamsTest, TheServersOwnWorkTakesAsLongAsItTakes) {
  stream_->AwaitClient();
  registry_.EndIdle();
  stream_->ClientCame();
  Pass(absl::Hours(1));
  Pass(absl::Hours(9));
  EXPECT_TRUE(stream_->idle.ok());
}

// A stream of its own type, since the thread of the registry ends it.
class EndedByThread : public OpenStream {
 public:
  EndedByThread() { BeginWaitForClient(); }
  void Stop(const absl::Status&) override {}
  void EndIdle(const absl::Status&) override { ended = true; }
  std::atomic<bool> ended = false;
};

TEST(StreamRegistryTest, LooksForIdleStreamsByItself) {
  auto stream = std::make_shared<EndedByThread>();
  StreamRegistry registry(8, absl::Milliseconds(1));
  ASSERT_TRUE(registry.Add(stream, "uid 1").ok());
  EXPECT_TRUE(WaitUntil([&] { return stream->ended.load(); }));
}

TEST(StreamRegistryTest, StreamsWithoutALimitOfTimeStay) {
  absl::Time now = absl::UnixEpoch();
  StreamRegistry registry(8, absl::InfiniteDuration(), [&] { return now; });
  auto stream = std::make_shared<Stream>(&registry);
  ASSERT_TRUE(registry.Add(stream, "uid 1").ok());
  stream->AwaitClient();
  registry.EndIdle();
  now += absl::Hours(100'000);
  registry.EndIdle();
  EXPECT_TRUE(stream->idle.ok());
}

}  // namespace
}  // namespace gpupool::server
