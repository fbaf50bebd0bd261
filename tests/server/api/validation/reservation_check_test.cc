#include "server/api/validation/reservation_check.h"

#include <gmock/gmock.h>

#include <functional>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::CreateReservationRequest Good() {
  v1::CreateReservationRequest request;
  request.set_request_id("one");
  request.set_tenant("lab");
  request.set_device_count(2);
  request.mutable_duration()->set_seconds(3600);
  return request;
}

std::string Refusal(
    const std::function<void(v1::CreateReservationRequest&)>& change) {
  v1::CreateReservationRequest request = Good();
  change(request);
  const absl::Status status = CheckReservation(request);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ReservationCheckTest, AcceptsWhatIsWellFormed) {
  v1::CreateReservationRequest request = Good();
  EXPECT_TRUE(CheckReservation(request).ok());
  request.set_name("night-7");
  request.add_devices("cuda:3");
  request.set_device_kind("cuda");
  request.mutable_start_time()->set_seconds(2000000000);
  request.mutable_duration()->set_seconds(int64_t{366} * 24 * 3600);
  EXPECT_TRUE(CheckReservation(request).ok()) << CheckReservation(request);
}

TEST(ReservationCheckTest, NamesWhatIsWrong) {
  using Request = v1::CreateReservationRequest;
  EXPECT_THAT(Refusal([](Request& r) { r.clear_tenant(); }),
              HasSubstr("tenant is not set"));
  EXPECT_THAT(Refusal([](Request& r) { r.set_name("a b"); }),
              HasSubstr("name is \"a b\""));
  EXPECT_THAT(Refusal([](Request& r) { r.clear_request_id(); }),
              HasSubstr("request_id"));
  EXPECT_THAT(Refusal([](Request& r) { r.set_device_count(4000); }),
              HasSubstr("at most 1024"));
  EXPECT_THAT(Refusal([](Request& r) { r.add_devices("gpu0"); }),
              HasSubstr("gpu0"));
  EXPECT_THAT(Refusal([](Request& r) {
                r.add_devices("cpu:0");
                r.add_devices("cpu:0");
              }),
              HasSubstr("\"cpu:0\" twice"));
  EXPECT_THAT(Refusal([](Request& r) { r.set_device_kind("tpu"); }),
              HasSubstr("device_kind is \"tpu\""));
  EXPECT_THAT(
      Refusal([](Request& r) { r.mutable_start_time()->set_nanos(-1); }),
      HasSubstr("start_time is not a time"));
  EXPECT_THAT(Refusal([](Request& r) {
                r.mutable_duration()->set_seconds(int64_t{400} * 86400);
              }),
              HasSubstr("duration is 400d;"));
  EXPECT_THAT(Refusal([](Request& r) { r.set_tenant("a..b"); }),
              HasSubstr("tenant is \"a..b\"; a '.' stands only between"));
  for (int64_t seconds : {int64_t{0}, int64_t{-5}, int64_t{366} * 86400 + 1,
                          std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(Refusal([&](Request& r) {
                  r.mutable_duration()->set_seconds(seconds);
                }),
                HasSubstr("it must be at least 1s and at most 366d"));
  }
}

TEST(ReservationCheckTest, ACancellationNeedsAnIdOrAName) {
  v1::CancelReservationRequest request;
  EXPECT_FALSE(CheckCancelReservation(request).ok());
  request.set_name("night");
  EXPECT_TRUE(CheckCancelReservation(request).ok());
  request.set_id(3);
  EXPECT_TRUE(CheckCancelReservation(request).ok());
}

}  // namespace
}  // namespace gpupool::server
