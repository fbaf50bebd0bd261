#include "server/trace/host_lookup.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// A lookup that ends when the test says so, which may be after the test.
struct SlowLookup {
  std::atomic<int> calls = 0;
  absl::Notification may_end;

  static LookUpHost Of(const std::shared_ptr<SlowLookup>& lookup) {
    return [lookup](const std::string&) {
      ++lookup->calls;
      lookup->may_end.WaitForNotification();
      return std::vector<std::string>{"192.0.2.1"};
    };
  }
};

TEST(HostLookupTest, TheSystemKnowsThisMachine) {
  EXPECT_THAT(LookUpBySystem("localhost"), Not(IsEmpty()));
}

TEST(HostLookupTest, AnAddressIsNotLookedUp) {
  for (const std::string host : {"192.0.2.7", "2001:db8::7"}) {
    HostLookup lookup(host, [](const std::string&) {
      ADD_FAILURE();
      return std::vector<std::string>();
    });
    EXPECT_THAT(lookup.Find(absl::InfiniteFuture()), ElementsAre(host));
  }
}

TEST(HostLookupTest, AHostWithoutAddressesHasNone) {
  HostLookup lookup(
      "nowhere", [](const std::string&) { return std::vector<std::string>(); });
  EXPECT_THAT(lookup.Find(absl::InfiniteFuture()), IsEmpty());
}

TEST(HostLookupTest, ASlowLookupIsWaitedForAgainInsteadOfRepeated) {
  const auto slow = std::make_shared<SlowLookup>();
  HostLookup lookup("collector", SlowLookup::Of(slow));
  EXPECT_THAT(lookup.Find(absl::Now()), IsEmpty());
  EXPECT_THAT(lookup.Find(absl::Now()), IsEmpty());
  slow->may_end.Notify();
  EXPECT_TRUE(WaitUntil([&] { return !lookup.Find(absl::Now()).empty(); }));
}

TEST(HostLookupTest, StopEndsAFindWhileTheLookupGoesOn) {
  const auto slow = std::make_shared<SlowLookup>();
  {
    HostLookup lookup("collector", SlowLookup::Of(slow));
    std::thread finds(
        [&] { EXPECT_THAT(lookup.Find(absl::InfiniteFuture()), IsEmpty()); });
    EXPECT_TRUE(WaitUntil([&] { return slow->calls == 1; }));
    lookup.Stop();
    finds.join();
    EXPECT_THAT(lookup.Find(absl::InfiniteFuture()), IsEmpty());
    EXPECT_EQ(slow->calls, 1);
  }
  slow->may_end.Notify();
}

}  // namespace
}  // namespace gpupool::server
