#include "server/pool/killer_requests.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {
namespace {

constexpr KillerRequests::TimePoint kStart{std::chrono::hours(1)};

TEST(KillerRequestsTest, TheSecondKillRefusesForAWhile) {
  KillerRequests killers;
  killers.Add("a", kStart);
  EXPECT_TRUE(killers.Check("a", kStart).ok());
  killers.Add("a", kStart + std::chrono::minutes(1));
  const absl::Status refused =
      killers.Check("a", kStart + std::chrono::minutes(2));
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_EQ(refused.message(),
            "reading or planning it has ended the planner 2 times; the same "
            "request is refused for another 9m; change it, or send it again "
            "then");
  EXPECT_TRUE(killers.Check("b", kStart).ok());
  EXPECT_TRUE(killers.Check("a", kStart + std::chrono::minutes(11)).ok());
}

TEST(KillerRequestsTest, AKillThatIsLongAgoDoesNotCount) {
  KillerRequests killers;
  killers.Add("a", kStart);
  killers.Add("a", kStart + kRefusedFor);
  EXPECT_TRUE(killers.Check("a", kStart + kRefusedFor).ok());
}

TEST(KillerRequestsTest, TheOldestIsForgottenBeyondTheLimit) {
  KillerRequests killers;
  for (size_t i = 0; i <= kMaxKillerRequests; ++i) {
    const auto now = kStart + std::chrono::milliseconds(i);
    killers.Add(absl::StrCat("request ", i), now);
    killers.Add(absl::StrCat("request ", i), now);
  }
  const auto later = kStart + std::chrono::seconds(1);
  EXPECT_TRUE(killers.Check("request 0", later).ok());
  EXPECT_FALSE(killers.Check("request 1", later).ok());
}

TEST(DigestOfRequestTest, OnlyTheIdOfARequestDoesNotCount) {
  worker::v1::ToWorker request;
  request.mutable_plan_training()->mutable_spec()->set_name("one");
  const std::string digest = DigestOfRequest(request);
  request.set_request_id(7);
  EXPECT_EQ(DigestOfRequest(request), digest);
  request.mutable_plan_training()->mutable_spec()->set_name("other");
  EXPECT_NE(DigestOfRequest(request), digest);
}

}  // namespace
}  // namespace gpupool::server
