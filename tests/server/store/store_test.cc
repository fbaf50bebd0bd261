#include "server/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "SQLiteCpp/SQLiteCpp.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = Store::Open(directory_ / "gpupool.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  v1::Job NewJob(const std::string& name, const std::string& tenant = "default",
                 v1::JobState state = v1::QUEUED) {
    v1::Job job;
    job.set_id(store_->AllocateId(IdKind::kJob));
    job.mutable_spec()->set_name(name);
    job.mutable_spec()->set_tenant(tenant);
    job.set_request_id("request-" + std::to_string(job.id()));
    job.set_state(state);
    return job;
  }

  void Commit(const WriteBatch& batch) {
    const absl::Status status = store_->Commit(batch);
    ASSERT_TRUE(status.ok()) << status;
  }

  v1::ModelVersion NewVersion(const std::string& model) {
    v1::ModelVersion version;
    version.set_id(store_->AllocateId(IdKind::kVersion));
    version.set_model(model);
    version.set_version(store_->AllocateVersion(model));
    version.set_state(v1::UNLOADED);
    return version;
  }

  TempDir directory_;
  std::unique_ptr<Store> store_;
};

v1::JobEvent NewEvent(uint64_t job_id, uint64_t sequence) {
  v1::JobEvent event;
  event.set_job_id(job_id);
  event.set_sequence(sequence);
  event.mutable_progress()->set_step(sequence * 10);
  return event;
}

TEST_F(StoreTest, CommittedJobIsThereAfterReopening) {
  const v1::Job job = NewJob("digits");
  Commit({.upsert_jobs = {job}});
  Reopen();
  const auto found = store_->GetJob(job.id());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->SerializeAsString(), job.SerializeAsString());
}

TEST_F(StoreTest, NamesTheProfiledJobWhoseRowIsDamaged) {
  v1::Job intact = NewJob("intact", "default", v1::SUCCEEDED);
  v1::Job damaged = NewJob("damaged", "default", v1::SUCCEEDED);
  intact.add_recorded_profiles()->set_cycle(1);
  damaged.add_recorded_profiles()->set_cycle(1);
  Commit({.upsert_jobs = {intact, damaged}});
  ASSERT_EQ(store_->LoadProfiledJobs()->size(), 2u);
  SQLite::Database(directory_ / "gpupool.db", SQLite::OPEN_READWRITE)
      .exec("UPDATE jobs SET checksum = checksum + 1 WHERE id = " +
            std::to_string(damaged.id()));
  const absl::Status status = store_->LoadProfiledJobs().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("job " + std::to_string(damaged.id())),
                    HasSubstr("--keep-jobs")));
}

TEST_F(StoreTest, UnknownJobIsNotFoundByItsId) {
  const auto found = store_->GetJob(77);
  EXPECT_TRUE(absl::IsNotFound(found.status()));
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("77"));
}

TEST_F(StoreTest, IdsRiseFromOneAndAreNotGivenAgain) {
  EXPECT_EQ(store_->AllocateId(IdKind::kJob), 1u);
  EXPECT_EQ(store_->AllocateId(IdKind::kJob), 2u);
  EXPECT_EQ(store_->AllocateId(IdKind::kDataset), 1u);
  Commit({});
  Reopen();
  EXPECT_EQ(store_->AllocateId(IdKind::kJob), 3u);
}

TEST_F(StoreTest, IdThatWasNeverCommittedIsFreeAgain) {
  EXPECT_EQ(store_->AllocateId(IdKind::kJob), 1u);
  Reopen();
  EXPECT_EQ(store_->AllocateId(IdKind::kJob), 1u);
}

TEST_F(StoreTest, NumberOfDeletedVersionIsNotGivenAgain) {
  const v1::ModelVersion first = NewVersion("digits");
  Commit({.upsert_versions = {first}});
  Commit({.delete_versions = {first.id()}});
  Reopen();
  EXPECT_EQ(NewVersion("digits").version(), 2u);
  EXPECT_EQ(NewVersion("other").version(), 1u);
}

TEST_F(StoreTest, FindsJobByRequestIdWithinItsTenant) {
  v1::Job job = NewJob("digits", "alice");
  job.set_request_id("abc");
  Commit({.upsert_jobs = {job}});
  const auto found = store_->FindByRequestId("alice", "abc");
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->id(), job.id());
  EXPECT_FALSE(store_->FindByRequestId("bob", "abc")->has_value());
}

TEST_F(StoreTest, RefusedBatchLeavesNothingAndEndsTheStore) {
  v1::Job first = NewJob("one");
  Commit({.upsert_jobs = {first}});
  v1::Job second = NewJob("two");
  v1::Job duplicate = NewJob("three");
  duplicate.set_request_id(first.request_id());
  EXPECT_FALSE(store_->Commit({.upsert_jobs = {second, duplicate}}).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob(second.id()).status()));
  EXPECT_FALSE(store_->Commit({.upsert_jobs = {second}}).ok());
  EXPECT_TRUE(store_->GetJob(first.id()).ok());
}

TEST_F(StoreTest, EventOfUnknownJobIsRefused) {
  EXPECT_FALSE(store_->Commit({.append_events = {NewEvent(5, 1)}}).ok());
}

TEST_F(StoreTest, ListsJobsNewestFirstInPages) {
  WriteBatch batch;
  for (int i = 0; i < 5; ++i) batch.upsert_jobs.push_back(NewJob("digits"));
  Commit(batch);
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<uint64_t> ids;
  do {
    const auto page = store_->ListJobs(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->jobs_size(), 2);
    for (const auto& job : page->jobs()) ids.push_back(job.id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(ids, (std::vector<uint64_t>{5, 4, 3, 2, 1}));
}

TEST_F(StoreTest, ListJobsFilters) {
  Commit(
      {.upsert_jobs = {NewJob("a", "alice", v1::RUNNING), NewJob("b", "alice"),
                       NewJob("a", "bob", v1::FAILED)}});
  v1::ListJobsRequest request;
  request.set_tenant("alice");
  EXPECT_EQ(store_->ListJobs(request)->jobs_size(), 2);
  request.set_name("a");
  ASSERT_EQ(store_->ListJobs(request)->jobs_size(), 1);
  EXPECT_EQ(store_->ListJobs(request)->jobs(0).id(), 1u);
  request.Clear();
  request.add_states(v1::FAILED);
  request.add_states(v1::QUEUED);
  EXPECT_EQ(store_->ListJobs(request)->jobs_size(), 2);
}

TEST_F(StoreTest, ForeignPageTokenIsRefused) {
  v1::ListJobsRequest request;
  for (const char* token : {"x", "d5", "j-1", "j", "j5; DROP TABLE jobs"}) {
    request.set_page_token(token);
    EXPECT_TRUE(absl::IsInvalidArgument(store_->ListJobs(request).status()))
        << token;
  }
  request.Clear();
  request.set_page_size(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(store_->ListJobs(request).status()));
}

TEST_F(StoreTest, ActiveJobsAreThoseThatHaveNotEnded) {
  WriteBatch batch;
  for (int state = v1::QUEUED; state <= v1::CANCELLED; ++state) {
    batch.upsert_jobs.push_back(
        NewJob("j", "default", static_cast<v1::JobState>(state)));
  }
  Commit(batch);
  const auto active = store_->LoadAllActiveJobs();
  ASSERT_TRUE(active.ok());
  ASSERT_EQ(active->size(), 5u);
  EXPECT_EQ(active->back().state(), v1::CANCELLING);
  EXPECT_EQ(store_->CountJobs()->at(v1::FAILED), 1u);
}

TEST_F(StoreTest, ReadsEventsAfterASequenceUpToALimit) {
  const v1::Job job = NewJob("digits");
  WriteBatch batch{.upsert_jobs = {job}};
  for (int i = 1; i <= 5; ++i) {
    batch.append_events.push_back(NewEvent(job.id(), i));
  }
  Commit(batch);
  const auto events = store_->ReadEvents(job.id(), 2, 2);
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(events->at(0).sequence(), 3u);
  EXPECT_EQ(events->at(1).progress().step(), 40u);
  EXPECT_TRUE(store_->ReadEvents(job.id(), UINT64_MAX, 2)->empty());
  EXPECT_TRUE(store_->ReadEvents(99, 0, 2)->empty());
  EXPECT_EQ(*store_->LastEventSequence(job.id()), 5u);
  EXPECT_EQ(*store_->LastEventSequence(99), 0u);
}

TEST_F(StoreTest, KeepsDatasetsByNameNewestFirst) {
  WriteBatch batch;
  for (const char* name : {"digits", "iris"}) {
    v1::Dataset dataset;
    dataset.set_id(store_->AllocateId(IdKind::kDataset));
    dataset.set_name(name);
    batch.upsert_datasets.push_back(dataset);
  }
  Commit(batch);
  EXPECT_EQ(store_->GetDataset("iris")->id(), 2u);
  v1::ListDatasetsRequest request;
  request.set_page_size(1);
  const auto page = store_->ListDatasets(request);
  ASSERT_EQ(page->datasets_size(), 1);
  EXPECT_EQ(page->datasets(0).name(), "iris");
  request.set_page_token(page->next_page_token());
  EXPECT_EQ(store_->ListDatasets(request)->datasets(0).name(), "digits");
  Commit({.delete_datasets = {1}});
  EXPECT_TRUE(absl::IsNotFound(store_->GetDataset("digits").status()));
  EXPECT_EQ(store_->LoadDatasets()->size(), 1u);
}

TEST_F(StoreTest, ListsOfDatasetsHaveNoDescriptions) {
  v1::Dataset dataset;
  dataset.set_id(store_->AllocateId(IdKind::kDataset));
  dataset.set_name("pets");
  dataset.set_rows(7);
  dataset.add_files()->set_sha256("abc");
  dataset.mutable_layout()->set_has_header(true);
  dataset.mutable_layout()->add_categories()->set_column("kind");
  dataset.mutable_description()->add_columns()->set_name("kind");
  Commit({.upsert_datasets = {dataset}});
  EXPECT_EQ(store_->GetDataset("pets")->description().columns_size(), 1);
  EXPECT_EQ(store_->GetDataset("pets")->layout().categories_size(), 1);
  for (const v1::Dataset& listed :
       {store_->ListDatasets({})->datasets(0), store_->LoadDatasets()->at(0)}) {
    EXPECT_FALSE(listed.has_description());
    EXPECT_EQ(listed.layout().categories_size(), 0);
    EXPECT_TRUE(listed.layout().has_header());
    EXPECT_EQ(listed.rows(), 7u);
    EXPECT_EQ(listed.files_size(), 1);
  }
}

TEST_F(StoreTest, NumbersContinueAboveARaisedOne) {
  store_->RaiseVersion("digits", 7);
  Commit({});
  Reopen();
  EXPECT_EQ(NewVersion("digits").version(), 8u);
  store_->RaiseVersion("digits", 3);
  EXPECT_EQ(NewVersion("digits").version(), 9u)
      << "a lower one changes nothing";
  EXPECT_EQ(NewVersion("other").version(), 1u);
}

TEST_F(StoreTest, FindsVersionsByNumberAndTheNewest) {
  const v1::ModelVersion first = NewVersion("digits");
  const v1::ModelVersion second = NewVersion("digits");
  const v1::ModelVersion other = NewVersion("another");
  Commit({.upsert_versions = {first, second, other}});
  EXPECT_EQ(store_->GetVersion("digits", 1)->id(), first.id());
  EXPECT_EQ(store_->GetVersion("digits", 0)->id(), second.id());
  EXPECT_EQ(store_->GetVersion("another", 1)->id(), other.id());
  EXPECT_THAT(std::string(store_->GetVersion("digits", 9).status().message()),
              HasSubstr("has no version 9"));
  const auto model = store_->GetModel("digits");
  ASSERT_EQ(model->versions_size(), 2);
  EXPECT_EQ(model->versions(0).version(), 2u);
  v1::ListModelsRequest request;
  request.set_page_size(1);
  const auto page = store_->ListModels(request);
  ASSERT_EQ(page->models_size(), 1);
  EXPECT_EQ(page->models(0).name(), "another");
  request.set_page_token(page->next_page_token());
  EXPECT_EQ(store_->ListModels(request)->models(0).name(), "digits");
}

TEST_F(StoreTest, KeepsCheckpointsByStep) {
  const v1::Job job = NewJob("digits");
  WriteBatch batch{.upsert_jobs = {job}};
  for (uint64_t step : {10, 20}) {
    v1::Checkpoint checkpoint;
    checkpoint.set_job_id(job.id());
    checkpoint.set_step(step);
    batch.upsert_checkpoints.push_back(checkpoint);
  }
  Commit(batch);
  EXPECT_EQ(store_->GetCheckpoint(job.id(), std::nullopt)->step(), 20u);
  EXPECT_EQ(store_->GetCheckpoint(job.id(), 10)->step(), 10u);
  const absl::Status missing = store_->GetCheckpoint(job.id(), 11).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_NE(missing.message().find("it has those of 10, 20"), std::string::npos)
      << missing;
  Commit({.delete_checkpoints = {{job.id(), 10}}});
  EXPECT_EQ(store_->LoadCheckpoints(job.id())->size(), 1u);
  EXPECT_EQ(store_->LoadCheckpoints(0)->size(), 1u);
}

TEST_F(StoreTest, KeepsCountersByPrefix) {
  Commit({.set_counters = {{"report/cpu:0", 7}, {"other", 1}}});
  Reopen();
  EXPECT_EQ(*store_->GetCounter("report/cpu:0"), 7u);
  EXPECT_EQ(*store_->GetCounter("never"), 0u);
  EXPECT_EQ(store_->LoadCounters("report/")->size(), 1u);
  Commit({.delete_counters = {"report/cpu:0"}});
  EXPECT_EQ(*store_->GetCounter("report/cpu:0"), 0u);
}

TEST_F(StoreTest, ReadersOnOtherThreadsSeeWholeBatches) {
  v1::Job job = NewJob("digits");
  Commit({.upsert_jobs = {job}, .append_events = {NewEvent(job.id(), 1)}});
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto found = store_->GetJob(job.id());
      ASSERT_TRUE(found.ok()) << found.status();
      const auto last = store_->LastEventSequence(job.id());
      ASSERT_TRUE(last.ok()) << last.status();
      // The events may be newer than the row, which was read first.
      EXPECT_GE(*last, found->progress().step());
    }
  });
  for (uint64_t step = 2; step < 50; ++step) {
    job.mutable_progress()->set_step(step);
    Commit({.upsert_jobs = {job}, .append_events = {NewEvent(job.id(), step)}});
  }
  done = true;
  reader.join();
}

// Overwrites every occurrence of `text` in the database file.
void Overwrite(const std::string& path, const std::string& text) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  size_t places = 0;
  for (size_t at = bytes.find(text); at != std::string::npos;
       at = bytes.find(text, at + 1)) {
    file.clear();
    file.seekp(static_cast<std::streamoff>(at));
    file.write("#", 1);
    ++places;
  }
  ASSERT_GT(places, 0u);
}

TEST_F(StoreTest, FlippedByteInARowIsDataLossThatNamesTheTable) {
  v1::Job job = NewJob("x");
  job.set_waiting_reason("unmistakable reason");
  Commit({.upsert_jobs = {job}});
  store_.reset();
  Overwrite(directory_ / "gpupool.db", "unmistakable");
  Reopen();
  const auto found = store_->GetJob(job.id());
  EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("table jobs"));
}

TEST_F(StoreTest, KeepsReservationsById) {
  v1::Reservation first;
  first.set_id(store_->AllocateId(IdKind::kReservation));
  first.set_request_id("one");
  first.set_tenant("lab");
  first.add_devices("cpu:0");
  v1::Reservation second = first;
  second.set_id(store_->AllocateId(IdKind::kReservation));
  second.set_request_id("two");
  ASSERT_TRUE(store_->Commit({.upsert_reservations = {second, first}}).ok());
  first.mutable_cancel_time()->set_seconds(7);
  ASSERT_TRUE(store_->Commit({.upsert_reservations = {first}}).ok());
  Reopen();
  auto found = store_->LoadReservations();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].cancel_time().seconds(), 7);
  EXPECT_EQ((*found)[1].request_id(), "two");
  ASSERT_TRUE(store_->Commit({.delete_reservations = {1}}).ok());
  EXPECT_EQ(store_->LoadReservations()->size(), 1u);
  EXPECT_EQ(store_->AllocateId(IdKind::kReservation), 3u);
}

TEST_F(StoreTest, ARequestIdOfAReservationIsThereOnce) {
  v1::Reservation one;
  one.set_id(1);
  one.set_request_id("same");
  v1::Reservation two = one;
  two.set_id(2);
  EXPECT_FALSE(store_->Commit({.upsert_reservations = {one, two}}).ok());
}

TEST_F(StoreTest, KeepsMemoryFractionsOfDevices) {
  EXPECT_TRUE(store_->LoadMemoryFractions()->empty());
  Commit({.set_memory_fractions = {{"cpu:0", 0.25}, {"cuda:1", 1.0 / 3}}});
  Commit({.set_memory_fractions = {{"cpu:0", 0.5}}});
  Reopen();
  const std::map<std::string, double> kept = {{"cpu:0", 0.5},
                                              {"cuda:1", 1.0 / 3}};
  EXPECT_EQ(*store_->LoadMemoryFractions(), kept);
}

TEST_F(StoreTest, KeepsTheLastMeasurementsOfEachDevice) {
  EXPECT_TRUE(store_->LoadDeviceBenches()->empty());
  v1::DeviceBench first, second;
  first.set_device("cpu:0");
  first.set_threads(1);
  second.set_device("cpu:1");
  Commit({.set_device_benches = {{"cpu:1", second}, {"cpu:0", first}}});
  first.set_threads(2);
  Commit({.set_device_benches = {{"cpu:0", first}}});
  Reopen();
  const auto benches = store_->LoadDeviceBenches();
  ASSERT_TRUE(benches.ok()) << benches.status();
  ASSERT_EQ(benches->size(), 2u);
  EXPECT_EQ(benches->at(0).device(), "cpu:0");
  EXPECT_EQ(benches->at(0).threads(), 2u);
  EXPECT_EQ(benches->at(1).device(), "cpu:1");
}

TEST_F(StoreTest, KeepsDrainsBesideMemoryFractions) {
  v1::DeviceDrain drain;
  drain.set_reason("new fan");
  drain.set_lets_finish(true);
  Commit({.set_memory_fractions = {{"cpu:0", 0.25}},
          .set_drains = {{"cpu:0", drain}, {"cpu:1", v1::DeviceDrain()}}});
  Reopen();
  auto drains = store_->LoadDrains();
  ASSERT_TRUE(drains.ok()) << drains.status();
  ASSERT_EQ(drains->size(), 2u);
  EXPECT_EQ(drains->at("cpu:0").reason(), "new fan");
  EXPECT_TRUE(drains->at("cpu:0").lets_finish());
  EXPECT_FALSE(drains->at("cpu:1").lets_finish());
  Commit({.set_drains = {{"cpu:0", std::nullopt}}});
  Reopen();
  EXPECT_FALSE(store_->LoadDrains()->contains("cpu:0"));
  EXPECT_EQ(store_->LoadMemoryFractions()->at("cpu:0"), 0.25);
}

}  // namespace
}  // namespace gpupool::server
