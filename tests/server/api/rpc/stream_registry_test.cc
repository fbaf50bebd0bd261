#include "server/api/rpc/stream_registry.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpupool::server {
namespace {

class Stream : public OpenStream {
 public:
  explicit Stream(StreamRegistry* registry) : registry_(registry) {}
  // Ends and leaves the registry from within, as a real stream may.
  void Stop(const absl::Status& status) override {
    stops.push_back(status);
    registry_->Remove(this);
  }
  std::vector<absl::Status> stops;

 private:
  StreamRegistry* registry_;
};

TEST(StreamRegistryTest, RefusesBeyondItsLimitUntilOneEnds) {
  StreamRegistry registry(2);
  auto a = std::make_shared<Stream>(&registry);
  auto b = std::make_shared<Stream>(&registry);
  auto c = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a).ok());
  EXPECT_TRUE(registry.Add(b).ok());
  EXPECT_EQ(registry.Add(c).code(), absl::StatusCode::kResourceExhausted);
  registry.Remove(a.get());
  EXPECT_TRUE(registry.Add(c).ok());
}

TEST(StreamRegistryTest, StopAllStopsEachOnceAndRefusesLaterOnes) {
  StreamRegistry registry(8);
  auto a = std::make_shared<Stream>(&registry);
  auto b = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a).ok());
  EXPECT_TRUE(registry.Add(b).ok());
  registry.StopAll();
  registry.StopAll();
  ASSERT_EQ(a->stops.size(), 1u);
  ASSERT_EQ(b->stops.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(a->stops[0]));
  EXPECT_TRUE(absl::IsUnavailable(registry.Add(a)));
}

TEST(StreamRegistryTest, DoesNotKeepStreamsAlive) {
  StreamRegistry registry(8);
  auto a = std::make_shared<Stream>(&registry);
  EXPECT_TRUE(registry.Add(a).ok());
  std::weak_ptr<Stream> weak = a;
  a.reset();
  EXPECT_TRUE(weak.expired());
  registry.StopAll();
}

}  // namespace
}  // namespace gpupool::server
