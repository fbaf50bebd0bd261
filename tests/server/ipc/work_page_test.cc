#include "server/ipc/work_page.h"

#include <fcntl.h>

#include <chrono>
#include <string>

#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using std::chrono::milliseconds;

UniqueFd CopyPage(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

class WorkPageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto worker = WorkPage::Create();
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_.emplace(*std::move(worker));
    auto daemon = WorkPage::Attach(CopyPage(worker_->fd()));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_.emplace(*std::move(daemon));
  }
  std::optional<WorkPage> worker_;
  std::optional<WorkPage> daemon_;
};

TEST_F(WorkPageTest, ANewPageIsIdleAndWithoutFault) {
  const WorkReading reading = daemon_->Read();
  EXPECT_FALSE(reading.busy);
  EXPECT_EQ(reading.fault, 0);
  EXPECT_EQ(reading.fault_text, "");
}

TEST_F(WorkPageTest, TheDaemonSeesWhatRunsAndForHowLong) {
  worker_->Begin(WorkPhase::kInfer);
  LetTimePass(absl::Milliseconds(5));
  const WorkReading reading = daemon_->Read();
  EXPECT_TRUE(reading.busy);
  EXPECT_EQ(reading.phase, WorkPhase::kInfer);
  EXPECT_GE(reading.age, milliseconds(5));
  EXPECT_EQ(reading.mean.count(), 0);  // the first of its kind
  worker_->End();
  EXPECT_FALSE(daemon_->Read().busy);
}

TEST_F(WorkPageTest, TheDaemonSeesForWhomTheWorkIsDone) {
  worker_->Begin(WorkPhase::kStep, {.job_id = 7});
  EXPECT_EQ(daemon_->Read().owner.job_id, 7u);
  worker_->Begin(WorkPhase::kInfer, {.version_id = 3});
  EXPECT_EQ(daemon_->Read().owner.job_id, 0u);
  EXPECT_EQ(daemon_->Read().owner.version_id, 3u);
  EXPECT_EQ(worker_->End().version_id, 3u);
  EXPECT_EQ(daemon_->Read().owner.job_id, 7u);
  EXPECT_EQ(worker_->End().job_id, 7u);
  EXPECT_EQ(daemon_->Read().owner.job_id, 0u);
}

TEST_F(WorkPageTest, AFaultKeepsTheOwnerOfItsWork) {
  worker_->SetFault(kExitDeviceFault, "illegal address", {.version_id = 3});
  worker_->Begin(WorkPhase::kStep, {.job_id = 7});
  EXPECT_EQ(daemon_->Read().owner.version_id, 3u);
  EXPECT_EQ(daemon_->Read().owner.job_id, 0u);
}

TEST_F(WorkPageTest, EachPhaseHasAMeanOfItsOwn) {
  worker_->Begin(WorkPhase::kStep);
  LetTimePass(absl::Milliseconds(5));
  worker_->End();
  worker_->Begin(WorkPhase::kInfer);
  EXPECT_EQ(daemon_->Read().mean.count(), 0);
  worker_->End();
  worker_->Begin(WorkPhase::kStep);
  EXPECT_GE(daemon_->Read().mean, milliseconds(5));
}

TEST_F(WorkPageTest, EachOwnerHasAMeanOfItsOwn) {
  worker_->Begin(WorkPhase::kStep, {.job_id = 7});
  LetTimePass(absl::Milliseconds(5));
  worker_->End();
  worker_->Begin(WorkPhase::kStep, {.job_id = 8});
  EXPECT_EQ(daemon_->Read().mean.count(), 0);
  worker_->End();
  worker_->Begin(WorkPhase::kStep, {.version_id = 7});
  EXPECT_EQ(daemon_->Read().mean.count(), 0);
  worker_->End();
  worker_->Begin(WorkPhase::kStep, {.job_id = 7});
  EXPECT_GE(daemon_->Read().mean, milliseconds(5));
}

TEST_F(WorkPageTest, MeansThatAreNotUsedAreForgotten) {
  const WorkOwner busy = {.job_id = 1};
  const WorkOwner idle = {.job_id = 2};
  for (const WorkOwner& owner : {busy, idle}) {
    worker_->Begin(WorkPhase::kStep, owner);
    LetTimePass(absl::Milliseconds(5));
    worker_->End();
  }
  for (uint64_t i = 1; i <= 1000; ++i) {
    worker_->Begin(WorkPhase::kInfer, {.version_id = i});
    worker_->Begin(WorkPhase::kStep, busy);
    worker_->End();
    worker_->End();
  }
  worker_->Begin(WorkPhase::kStep, busy);
  EXPECT_GT(daemon_->Read().mean.count(), 0);
  worker_->End();
  worker_->Begin(WorkPhase::kStep, idle);
  EXPECT_EQ(daemon_->Read().mean.count(), 0);
}

TEST_F(WorkPageTest, OtherWorkHasNoMean) {
  for (int i = 0; i < 2; ++i) {
    worker_->Begin(WorkPhase::kOther, {.job_id = 7});
    LetTimePass(absl::Milliseconds(1));
    EXPECT_EQ(daemon_->Read().mean.count(), 0);
    worker_->End();
  }
}

TEST_F(WorkPageTest, APieceInsideAnotherIsShownAndDoesNotCountForIt) {
  const auto start = std::chrono::steady_clock::now();
  worker_->Begin(WorkPhase::kStep);
  LetTimePass(absl::Milliseconds(5));
  worker_->Begin(WorkPhase::kInfer);
  EXPECT_EQ(daemon_->Read().phase, WorkPhase::kInfer);
  LetTimePass(absl::Milliseconds(300));
  worker_->End();
  const WorkReading reading = daemon_->Read();
  EXPECT_TRUE(reading.busy);
  EXPECT_EQ(reading.phase, WorkPhase::kStep);
  EXPECT_GE(reading.age, milliseconds(5));
  worker_->End();
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_FALSE(daemon_->Read().busy);
  worker_->Begin(WorkPhase::kInfer);
  EXPECT_GE(daemon_->Read().mean, milliseconds(300));
  worker_->End();
  worker_->Begin(WorkPhase::kStep);
  EXPECT_GE(daemon_->Read().mean, milliseconds(5));
  EXPECT_LE(daemon_->Read().mean, took - milliseconds(300));
}

TEST_F(WorkPageTest, AFaultOutlivesTheWorker) {
  worker_->SetFault(kExitDeviceFault, std::string(1000, 'x'));
  worker_.reset();
  const WorkReading reading = daemon_->Read();
  EXPECT_EQ(reading.fault, kExitDeviceFault);
  EXPECT_EQ(reading.fault_text, std::string(480, 'x'));
}

TEST(WorkPageAttachTest, OtherRegionsAreRefused) {
  const auto zeros = MemoryRegion::Create("zeros", 4096);
  ASSERT_TRUE(zeros.ok());
  EXPECT_EQ(WorkPage::Attach(CopyPage(zeros->fd())).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WorkPage::Attach(UniqueFd()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A worker that writes nonsense must not harm the daemon.
TEST(WorkPageAttachTest, NonsenseOnThePageIsReadAsIdle) {
  auto worker = WorkPage::Create();
  ASSERT_TRUE(worker.ok());
  auto region = MemoryRegion::Attach(CopyPage(worker->fd()));
  ASSERT_TRUE(region.ok());
  auto daemon = WorkPage::Attach(CopyPage(worker->fd()));
  ASSERT_TRUE(daemon.ok());
  for (uint64_t i = 8; i < region->bytes(); ++i) {
    region->data()[i] = std::byte{0xff};
  }
  const WorkReading reading = daemon->Read();
  EXPECT_FALSE(reading.busy);
  EXPECT_EQ(reading.fault, -1);
  EXPECT_LE(reading.fault_text.size(), 480u);
}

}  // namespace
}  // namespace gpupool::server
