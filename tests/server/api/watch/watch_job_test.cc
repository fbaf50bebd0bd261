#include "server/api/watch/watch_job.h"

#include <gtest/gtest.h>

#include <thread>

#include "gpupool/v1/job.grpc.pb.h"
#include "tests/server/api/api_fixture.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

class WatchJobTest : public ApiFixture {
 protected:
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::JobEvent>> reader;
  };

  std::unique_ptr<Watch> Begin(uint64_t job, uint64_t after,
                               bool mark_caught_up = false) {
    auto watch = std::make_unique<Watch>();
    watch->context.set_deadline(std::chrono::system_clock::now() +
                                std::chrono::seconds(20));
    v1::WatchJobRequest request;
    request.set_id(job);
    request.set_after_sequence(after);
    request.set_mark_caught_up(mark_caught_up);
    watch->reader =
        v1::JobService::NewStub(channel_)->WatchJob(&watch->context, request);
    return watch;
  }
};

bool IsSuccess(const v1::JobEvent& event) {
  return event.has_state_change() && event.state_change().to() == v1::SUCCEEDED;
}

TEST_F(WatchJobTest, StreamsEveryEventInOrderAndEndsAfterTheLast) {
  const auto job = StartJob();
  auto watch = Begin(job.job_id(), 0);
  // Writes more than a page of events while the stream runs.
  std::thread worker([&] {
    for (uint64_t step = 1; step <= 300; ++step) ReportProgress(job, step);
    ReportSuccess(job);
  });
  v1::JobEvent event;
  uint64_t sequence = 0;
  uint64_t steps = 0;
  while (watch->reader->Read(&event)) {
    ASSERT_EQ(event.sequence(), ++sequence);
    steps += event.has_progress();
  }
  worker.join();
  EXPECT_TRUE(watch->reader->Finish().ok());
  EXPECT_TRUE(IsSuccess(event));
  EXPECT_EQ(steps, 300u);
}

TEST_F(WatchJobTest, ResumesAfterTheSequenceThatWasSeen) {
  const auto job = StartJob();
  for (uint64_t step = 1; step <= 5; ++step) ReportProgress(job, step);
  ReportSuccess(job);
  v1::JobEvent event;
  std::vector<uint64_t> all;
  auto watch = Begin(job.job_id(), 0);
  while (watch->reader->Read(&event)) all.push_back(event.sequence());
  ASSERT_GT(all.size(), 5u);
  const uint64_t seen = all[all.size() - 3];
  std::vector<uint64_t> rest;
  watch = Begin(job.job_id(), seen);
  while (watch->reader->Read(&event)) rest.push_back(event.sequence());
  EXPECT_TRUE(watch->reader->Finish().ok());
  EXPECT_EQ(rest, (std::vector<uint64_t>{seen + 1, seen + 2}));
}

TEST_F(WatchJobTest, EndedJobWithNothingNewEndsAtOnce) {
  const auto job = StartJob();
  ReportProgress(job, 1);
  ReportSuccess(job);
  auto watch = Begin(job.job_id(), 0);
  v1::JobEvent event;
  while (watch->reader->Read(&event)) {
  }
  watch = Begin(job.job_id(), event.sequence());
  EXPECT_FALSE(watch->reader->Read(&event));
  EXPECT_TRUE(watch->reader->Finish().ok());
}

TEST_F(WatchJobTest, SaysOnceThatItHasCaughtUpWhereThatIsAskedFor) {
  const auto job = StartJob();
  ReportProgress(job, 1);
  auto watch = Begin(job.job_id(), 0, /*mark_caught_up=*/true);
  v1::JobEvent event;
  uint64_t last = 0;
  while (watch->reader->Read(&event) && !event.has_caught_up()) {
    last = event.sequence();
  }
  ASSERT_TRUE(event.has_caught_up());
  EXPECT_GT(last, 0u) << "what is stored comes first";
  EXPECT_GE(event.sequence(), last);
  EXPECT_EQ(event.job_id(), job.job_id());
  ReportSuccess(job);
  while (watch->reader->Read(&event)) {
    EXPECT_FALSE(event.has_caught_up());
    EXPECT_EQ(event.sequence(), ++last) << "the marker is no event of the job";
  }
  EXPECT_TRUE(watch->reader->Finish().ok());
  EXPECT_TRUE(IsSuccess(event));
}

TEST_F(WatchJobTest, UnknownJobIsNotFound) {
  auto watch = Begin(77, 0);
  v1::JobEvent event;
  EXPECT_FALSE(watch->reader->Read(&event));
  EXPECT_EQ(watch->reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(WatchJobTest, CancelledWatchGivesItsPlaceBack) {
  const auto job = StartJob();
  v1::JobEvent event;
  for (int round = 0; round < 20; ++round) {
    // The server notices a cancelled watch a moment later.
    std::unique_ptr<Watch> watch;
    ASSERT_TRUE(WaitUntil([&] {
      watch = Begin(job.job_id(), 0);
      return watch->reader->Read(&event);
    })) << "round "
        << round;
    watch->context.TryCancel();
    while (watch->reader->Read(&event)) {
    }
    EXPECT_EQ(watch->reader->Finish().error_code(),
              grpc::StatusCode::CANCELLED);
  }
}

TEST_F(WatchJobTest, MoreThanHalfOfThePlacesAreRefusedToOneCaller) {
  const auto job = StartJob();
  v1::JobEvent event;
  std::vector<std::unique_ptr<Watch>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(Begin(job.job_id(), 0));
    ASSERT_TRUE(open.back()->reader->Read(&event));
  }
  auto refused = Begin(job.job_id(), 0);
  EXPECT_FALSE(refused->reader->Read(&event));
  EXPECT_EQ(refused->reader->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (auto& watch : open) watch->context.TryCancel();
}

TEST_F(WatchJobTest, StoppingServerTellsTheClientToComeBack) {
  const auto job = StartJob();
  auto watch = Begin(job.job_id(), 0);
  v1::JobEvent event;
  ASSERT_TRUE(watch->reader->Read(&event));
  std::thread stop([&] { api_->Stop(absl::Seconds(5)); });
  while (watch->reader->Read(&event)) {
  }
  EXPECT_EQ(watch->reader->Finish().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  stop.join();
}

}  // namespace
}  // namespace gpupool::server
