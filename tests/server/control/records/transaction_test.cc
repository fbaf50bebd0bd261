#include "server/control/records/transaction.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/records/event_thinning.h"
#include "server/control/report_intake.h"

namespace gpupool::server {
namespace {

using scheduler::JobId;

class TransactionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "gpupoolXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    store = *Store::Open(folder / "gpupool.db");
    device = ledger.state.AddDevice("cpu:0", "cpu", 100);
  }
  void TearDown() override {
    store.reset();
    std::filesystem::remove_all(folder);
  }
  // Adds a row and tells the scheduler, like admission.
  uint64_t AddJob(Transaction& transaction, bool publish = false) {
    v1::Job job;
    job.set_id(store->AllocateId(IdKind::kJob));
    job.mutable_spec()->set_name("digits");
    job.set_request_id(std::to_string(job.id()));
    job.set_state(v1::QUEUED);
    const uint64_t id = job.id();
    ledger.AddJob(std::move(job));
    ++ledger.job_counts[v1::QUEUED];
    transaction.TouchJob(id);
    transaction.Apply(scheduler::JobSubmitted{
        .publish_on_success = publish, .id = JobId(id), .bytes = 10});
    return id;
  }
  worker::v1::Report NewReport(uint64_t job) {
    worker::v1::Report report;
    report.set_sequence(++sequence);
    report.set_job_id(job);
    report.set_attempt(1);
    return report;
  }

  std::filesystem::path folder;
  std::unique_ptr<Store> store;
  Ledger ledger;
  scheduler::DeviceId device;
  uint64_t sequence = 0;
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(TransactionTest, NothingIsVisibleBeforeTheCommitAndAllOfItAfter) {
  Transaction transaction(&ledger, store.get(), now);
  transaction.Apply(scheduler::WorkerReady{.device = device});
  const uint64_t id = AddJob(transaction);
  EXPECT_FALSE(store->GetJob(id).ok());
  ASSERT_TRUE(transaction.Commit().ok());
  EXPECT_EQ(store->GetJob(id)->state(), v1::STARTING);
  EXPECT_EQ(store->GetJob(id)->device(), "cpu:0");
  EXPECT_EQ(store->LastEventSequence(id).value(), 1u);
  EXPECT_EQ(transaction.actions().size(), 1u);
}

TEST_F(TransactionTest, SuccessAndItsVersionAreOneCommit) {
  Transaction transaction(&ledger, store.get(), now);
  transaction.Apply(scheduler::WorkerReady{.device = device});
  const uint64_t id = AddJob(transaction, /*publish=*/true);
  worker::v1::Report saved = NewReport(id);
  saved.mutable_checkpoint()->set_step(5);
  TakeReport(transaction, "cpu:0", saved, 5);
  worker::v1::Report ended = NewReport(id);
  ended.mutable_ended()->set_outcome(worker::v1::JobEnded::SUCCEEDED);
  TakeReport(transaction, "cpu:0", ended, 5);
  ASSERT_TRUE(transaction.Commit().ok());
  EXPECT_EQ(store->GetJob(id)->state(), v1::SUCCEEDED);
  EXPECT_EQ(store->GetVersion("digits", 1)->job_id(), id);
  EXPECT_EQ(store->GetCounter("reports/cpu:0").value(), 2u);
  transaction.ForgetEnded();
  EXPECT_EQ(ledger.FindJob(id), nullptr);
  EXPECT_EQ(ledger.state.FindJob(JobId(id)), nullptr);
}

TEST_F(TransactionTest, CountsFollowEveryChangeOfState) {
  Transaction transaction(&ledger, store.get(), now);
  const uint64_t id = AddJob(transaction);
  EXPECT_EQ(ledger.job_counts[v1::QUEUED], 1u);
  transaction.Apply(scheduler::JobCancelRequested{JobId(id)});
  EXPECT_EQ(ledger.job_counts[v1::QUEUED], 0u);
  EXPECT_EQ(ledger.job_counts[v1::CANCELLED], 1u);
}

TEST_F(TransactionTest, ALongLogLineIsCut) {
  Transaction transaction(&ledger, store.get(), now);
  transaction.Apply(scheduler::WorkerReady{.device = device});
  const uint64_t id = AddJob(transaction);
  worker::v1::Report report = NewReport(id);
  report.mutable_log()->set_text(std::string(10000, 'x'));
  TakeReport(transaction, "cpu:0", report, 5);
  ASSERT_TRUE(transaction.Commit().ok());
  const auto events = *store->ReadEvents(id, 0, 10);
  EXPECT_EQ(events.back().log().text().size(), 4096u);
}

TEST_F(TransactionTest, OldEventsAreThinnedStateChangesStay) {
  uint64_t id = 0;
  {
    Transaction transaction(&ledger, store.get(), now);
    transaction.Apply(scheduler::WorkerReady{.device = device});
    id = AddJob(transaction);
    ASSERT_TRUE(transaction.Commit().ok());
  }
  const uint64_t count = 4 * kEventsKept;
  uint64_t changes = 0;
  while (ledger.FindJob(id)->next_sequence <= count) {
    Transaction transaction(&ledger, store.get(), now);
    for (int i = 0; i < 1000; ++i) {
      v1::JobEvent event;
      if (i % 10 == 0) {
        event.mutable_state_change()->set_reason("again");
        ++changes;
      } else {
        event.mutable_progress()->set_step(i);
      }
      transaction.AppendEvent(*ledger.FindJob(id), event);
    }
    ASSERT_TRUE(transaction.Commit().ok());
  }
  uint64_t kept = 0;
  uint64_t last = 0;
  const auto events = *store->ReadEvents(id, 0, 100000);
  for (const v1::JobEvent& event : events) {
    EXPECT_GT(event.sequence(), last);
    last = event.sequence();
    ++kept;
    if (event.state_change().reason() == "again") --changes;
  }
  EXPECT_EQ(changes, 0u);
  EXPECT_EQ(last + 1, ledger.FindJob(id)->next_sequence);
  EXPECT_GT(kept, kEventsKept);
  EXPECT_LT(kept, last - kEventsKept);
}

TEST_F(TransactionTest, AnEmptyReportOfAnUnknownDeviceIsHarmless) {
  Transaction transaction(&ledger, store.get(), now);
  TakeReport(transaction, "cpu:7", NewReport(1), 5);
  TakeReport(transaction, "cpu:0", NewReport(1), 5);
  EXPECT_EQ(transaction.acknowledgements().size(), 1u);
  EXPECT_TRUE(transaction.Commit().ok());
}

}  // namespace
}  // namespace gpupool::server
