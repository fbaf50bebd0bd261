#include "server/http/port/admission.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMost = 100;

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    route_.most_body_bytes = kMost;
    route_.bodies = &bodies_;
    route_.error = [](const absl::Status& error, int status) {
      return JsonAnswer(status != 0 ? status : 429,
                        std::string(error.message()));
    };
  }

  BodyBudget bodies_{2 * kMost};
  HttpRoute route_;
  HttpRequest request_;
};

TEST_F(AdmissionTest, ABodyWithinTheLimitsHasAPlace) {
  const Admission first = AdmitRequest(route_, request_, {true, kMost});
  EXPECT_FALSE(first.refusal.has_value());
  EXPECT_TRUE(first.place.has_value());
  // A body in chunks may become as large.
  const Admission second = AdmitRequest(route_, request_, {true, std::nullopt});
  EXPECT_TRUE(second.place.has_value());
  const Admission third = AdmitRequest(route_, request_, {true, 1});
  ASSERT_TRUE(third.refusal.has_value());
  EXPECT_EQ(third.refusal->status, 429);
  EXPECT_THAT(third.refusal->body, HasSubstr("200 bytes at a time"));
  EXPECT_FALSE(AdmitRequest(route_, request_, {false, 0}).refusal.has_value());
}

TEST_F(AdmissionTest, ACompressedBodyIsThereTwice) {
  request_.headers = {{"content-encoding", "gzip"}};
  const Admission first = AdmitRequest(route_, request_, {true, 50});
  EXPECT_TRUE(first.place.has_value());
  EXPECT_TRUE(bodies_.Take(50).has_value());
  EXPECT_FALSE(bodies_.Take(51).has_value());
}

TEST_F(AdmissionTest, ALargeBodyIsRefused) {
  const Admission large = AdmitRequest(route_, request_, {true, kMost + 1});
  ASSERT_TRUE(large.refusal.has_value());
  EXPECT_EQ(large.refusal->status, 413);
  EXPECT_THAT(large.refusal->body, HasSubstr("more than 100 bytes"));
  EXPECT_FALSE(large.place.has_value());
}

TEST_F(AdmissionTest, APlaceIsNeverLargerThanABodyMayBe) {
  EXPECT_EQ(PlaceFor(route_, request_, 7, false), 7u);
  EXPECT_EQ(PlaceFor(route_, request_, 5 * kMost, false), kMost);
  request_.headers = {{"Content-Encoding", "gzip"}};
  EXPECT_EQ(PlaceFor(route_, request_, 7, false), 7u);
  EXPECT_EQ(PlaceFor(route_, request_, 7, true), 7 + kMost);
}

TEST_F(AdmissionTest, ABodyThatIsDroppedNeedsNoPlace) {
  route_.bodies = nullptr;
  EXPECT_FALSE(AdmitRequest(route_, request_, {true, kMost}).place.has_value());
  EXPECT_TRUE(
      AdmitRequest(route_, request_, {true, kMost + 1}).refusal.has_value());
}

TEST_F(AdmissionTest, TheRouteMayRefuse) {
  route_.refuse = [](const HttpRequest&) { return JsonAnswer(403, "no"); };
  const Admission refused = AdmitRequest(route_, request_, {true, 1});
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_EQ(refused.refusal->status, 403);
  EXPECT_FALSE(refused.place.has_value());
}

TEST_F(AdmissionTest, AnUnknownExpectationFails) {
  request_.headers = {{"Expect", "100-CONTINUE"}};
  EXPECT_FALSE(AdmitRequest(route_, request_, {true, 1}).refusal.has_value());
  request_.headers = {{"Expect", "more"}};
  const Admission refused = AdmitRequest(route_, request_, {true, 1});
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_EQ(refused.refusal->status, 417);
}

TEST_F(AdmissionTest, AWrongMethodIsToldThoseOfThePath) {
  request_.method = "PUT";
  request_.path = "/models";
  const HttpResponse wrong = WrongMethod(route_.error, request_, "GET, HEAD");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.body, "no PUT /models; its methods are GET, HEAD");
  EXPECT_EQ(wrong.headers.back().name, "Allow");
  EXPECT_EQ(wrong.headers.back().value, "GET, HEAD");
}

TEST_F(AdmissionTest, ARequestWithoutAThreadIsToldWhy) {
  EXPECT_THAT(NoThread(route_, false).body, HasSubstr("too many requests"));
  EXPECT_THAT(NoThread(route_, true).body, HasSubstr("shutting down"));
}

}  // namespace
}  // namespace gpupool::server
