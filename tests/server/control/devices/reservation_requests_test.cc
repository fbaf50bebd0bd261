#include "server/control/devices/reservation_requests.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/records/rows.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ReservationRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    options.devices.push_back({"cpu:1", kLimit, 1});
    Restart();
    Hello("cpu:0");
    Hello("cpu:1");
  }

  v1::CreateReservationRequest For(const std::string& tenant,
                                   absl::Duration from = absl::ZeroDuration()) {
    v1::CreateReservationRequest request;
    request.set_request_id(absl::StrCat("r-", ++last));
    request.set_tenant(tenant);
    request.set_device_count(1);
    request.mutable_duration()->set_seconds(3600);
    if (from != absl::ZeroDuration()) {
      *request.mutable_start_time() = ToTimestamp(absl::Now() + from);
    }
    return request;
  }
  absl::StatusOr<v1::Reservation> Create(
      const v1::CreateReservationRequest& request) {
    Answer<v1::Reservation> answer;
    CreateReservation(control(), request, answer.callback());
    return answer.Wait();
  }
  absl::StatusOr<v1::Reservation> Cancel(uint64_t id, std::string name = "") {
    v1::CancelReservationRequest request;
    request.set_id(id);
    request.set_name(std::move(name));
    Answer<v1::Reservation> answer;
    CancelReservation(control(), request, answer.callback());
    return answer.Wait();
  }
  v1::ListReservationsResponse List(bool all = false) {
    v1::ListReservationsRequest request;
    request.set_all(all);
    return *ListReservations(*store, request, absl::Now());
  }
  std::string Refusal(const v1::CreateReservationRequest& request,
                      absl::StatusCode code) {
    const absl::Status status = Create(request).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  int last = 0;
};

TEST_F(ReservationRequestsTest, OneThatWasMadeIsListedAndSurvivesARestart) {
  const auto made = Create(For("lab"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->name(), "reservation-1");
  EXPECT_EQ(made->state(), v1::RESERVATION_ACTIVE);
  EXPECT_EQ(FromTimestamp(made->end_time()) - FromTimestamp(made->start_time()),
            absl::Hours(1));
  const auto later = Create(For("lab", absl::Hours(5)));
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->state(), v1::RESERVATION_PENDING);
  Restart();
  const auto list = List();
  ASSERT_EQ(list.reservations_size(), 2);
  EXPECT_EQ(list.reservations(0).id(), made->id());
  const auto is_shown = [&] {
    const auto devices = ListDevices(control());
    for (const v1::Device& device : devices) {
      if (device.name() != made->devices(0)) continue;
      return device.reservations_size() > 0 && device.reservations(0).active();
    }
    return false;
  };
  EXPECT_TRUE(Eventually(is_shown));
}

TEST_F(ReservationRequestsTest, TheSameRequestIdMakesOneReservation) {
  v1::CreateReservationRequest request = For("lab", absl::Hours(1));
  request.set_device_count(0);
  request.add_devices("cpu:1");
  const auto first = Create(request);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = Create(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), first->id());
  Restart();
  EXPECT_EQ(Create(request)->id(), first->id());
  request.set_tenant("shop");
  EXPECT_THAT(Refusal(request, absl::StatusCode::kAlreadyExists),
              HasSubstr("was used for reservation 1"));
  EXPECT_EQ(List().reservations_size(), 1);
}

TEST_F(ReservationRequestsTest, AnErrorNamesWhatIsInTheWay) {
  v1::CreateReservationRequest named = For("lab");
  named.set_name("night");
  named.set_device_count(0);
  named.add_devices("cpu:0");
  ASSERT_TRUE(Create(named).ok());

  v1::CreateReservationRequest same = For("shop", absl::Hours(9));
  same.set_name("night");
  EXPECT_THAT(Refusal(same, absl::StatusCode::kAlreadyExists),
              HasSubstr("reservation 1 is called \"night\""));
  v1::CreateReservationRequest taken = For("shop");
  taken.add_devices("cpu:0");
  EXPECT_THAT(Refusal(taken, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("cpu:0 is reserved as 'night' for lab"),
                    HasSubstr("besides: cpu:1")));
  v1::CreateReservationRequest both = For("shop");
  both.set_device_count(2);
  EXPECT_THAT(Refusal(both, absl::StatusCode::kFailedPrecondition),
              HasSubstr("free are cpu:1"));
  both.set_device_count(3);
  EXPECT_THAT(Refusal(both, absl::StatusCode::kInvalidArgument),
              HasSubstr("there are 2 cpu"));
  v1::CreateReservationRequest unknown = For("shop");
  unknown.add_devices("cpu:7");
  EXPECT_THAT(Refusal(unknown, absl::StatusCode::kNotFound),
              HasSubstr("no device \"cpu:7\""));
  EXPECT_THAT(Refusal(For("shop", -absl::Minutes(1)),
                      absl::StatusCode::kInvalidArgument),
              HasSubstr("which has passed"));
  EXPECT_THAT(Refusal(For("shop", absl::Hours(24 * 400)),
                      absl::StatusCode::kInvalidArgument),
              HasSubstr("more than 366 days ahead"));
}

// Such a tenant may submit jobs, too.
TEST_F(ReservationRequestsTest, ATenantNeedsNoShare) {
  options.scheduling.tenants = {{"lab.vision", {}}, {"shop", {}}};
  Restart();
  const auto reserved = Create(For("zoe"));
  EXPECT_TRUE(reserved.ok()) << reserved.status();
}

TEST_F(ReservationRequestsTest, CancelledItIsKeptAndItsNameIsFree) {
  v1::CreateReservationRequest request = For("lab");
  request.set_name("night");
  request.set_device_count(2);
  ASSERT_TRUE(Create(request).ok());
  const auto cancelled = Cancel(0, "night");
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), v1::RESERVATION_CANCELLED);
  EXPECT_EQ(Cancel(1)->state(), v1::RESERVATION_CANCELLED);  // a no-op
  EXPECT_TRUE(absl::IsNotFound(Cancel(0, "night").status()));
  EXPECT_TRUE(absl::IsNotFound(Cancel(7).status()));
  EXPECT_EQ(List().reservations_size(), 0);
  EXPECT_EQ(List(true).reservations_size(), 1);
  request.set_request_id("another");
  EXPECT_TRUE(Create(request).ok());
  Restart();
  EXPECT_EQ(List().reservations_size(), 1);
}

TEST_F(ReservationRequestsTest, ThereIsAMostOfThem) {
  for (size_t i = 0; i < scheduler::kMostReservations; ++i) {
    const auto made = Create(For("lab", absl::Hours(2) * (i + 1)));
    ASSERT_TRUE(made.ok()) << made.status();
  }
  EXPECT_THAT(Refusal(For("lab", absl::Minutes(5)),
                      absl::StatusCode::kResourceExhausted),
              HasSubstr("256 reservations have not ended"));
  ASSERT_TRUE(Cancel(1).ok());
  EXPECT_TRUE(Create(For("lab", absl::Minutes(5))).ok());
}

TEST_F(ReservationRequestsTest, OfThoseThatAreOverTheLastAreKept) {
  for (size_t i = 1; i <= kKeptReservations + 3; ++i) {
    ASSERT_TRUE(Create(For("lab")).ok());
    ASSERT_TRUE(Cancel(i).ok());
  }
  ASSERT_TRUE(Create(For("lab")).ok());
  EXPECT_EQ(List(true).reservations_size(),
            static_cast<int>(kKeptReservations) + 1);
  EXPECT_TRUE(absl::IsNotFound(Cancel(3).status()));
  EXPECT_TRUE(Cancel(4).ok());
}

TEST_F(ReservationRequestsTest, AJobOfAnotherTenantIsToldWhy) {
  AddDataset("digits");
  v1::CreateReservationRequest request = For("lab");
  request.set_device_count(2);
  const v1::Job job = SubmitAndStart(Request("one"));
  ReportStarted(job.id(), 1);
  ASSERT_TRUE(Becomes(job.id(), v1::RUNNING));
  ASSERT_TRUE(Create(request).ok());
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  ASSERT_TRUE(post.message.has_stop_job());
  ReportCheckpoint(job.id(), 1, 7);
  ReportEnded(job.id(), 1, worker::v1::JobEnded::STOPPED);
  ASSERT_TRUE(Becomes(job.id(), v1::QUEUED));
  EXPECT_TRUE(Eventually([&] {
    return GetJob(control(), job.id())
               ->waiting_reason()
               .find("is reserved for lab until") != std::string::npos;
  }));
  std::string texts;
  const auto events = ReadEvents(control(), job.id(), {0, 100});
  ASSERT_TRUE(events.ok()) << events.status();
  for (const v1::JobEvent& event : *events) {
    absl::StrAppend(&texts, event.log().text(), event.state_change().reason());
  }
  EXPECT_THAT(texts, AllOf(HasSubstr("device cpu:0 is reserved for lab until"),
                           HasSubstr("waits to resume from step 7")));
  // The job starts again when the devices are free.
  ASSERT_TRUE(Cancel(1).ok());
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().attempt(), 2u);
}

}  // namespace
}  // namespace gpupool::server
