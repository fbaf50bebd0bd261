// Arrays of jobs in the store: their counts, pages and ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class StoreArraysTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = Store::Open(directory_ / "gpupool.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Adds an array with `tasks` QUEUED tasks, whose ids follow its own.
  v1::JobArray Add(const std::string& request, uint32_t tasks,
                   const std::string& name = "tune",
                   const std::string& tenant = "default") {
    WriteBatch batch;
    v1::JobArray array;
    array.set_id(store_->AllocateId(IdKind::kJob));
    array.set_request_id(request);
    array.mutable_spec()->set_name(name);
    array.mutable_spec()->set_tenant(tenant);
    array.set_tasks(tasks);
    batch.insert_arrays.push_back(array);
    for (uint32_t index = 0; index < tasks; ++index) {
      v1::Job& job = batch.upsert_jobs.emplace_back();
      job.set_id(store_->AllocateId(IdKind::kJob));
      job.mutable_spec()->set_tenant(tenant);
      job.set_array_id(array.id());
      job.set_array_index(index);
      job.set_state(v1::QUEUED);
    }
    Commit(batch);
    return array;
  }
  void Move(uint64_t job, v1::JobState state) {
    auto row = store_->GetJob(job);
    ASSERT_TRUE(row.ok()) << row.status();
    row->set_state(state);
    if (state >= v1::SUCCEEDED) row->mutable_end_time()->set_seconds(1);
    Commit({.upsert_jobs = {*row}});
  }
  void Commit(const WriteBatch& batch) {
    const absl::Status status = store_->Commit(batch);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::map<v1::JobState, uint32_t> CountsOf(uint64_t id) {
    const auto array = store_->GetArray(id);
    EXPECT_TRUE(array.ok()) << array.status();
    std::map<v1::JobState, uint32_t> counts;
    if (!array.ok()) return counts;
    for (const auto& count : array->counts()) {
      counts[count.state()] = count.tasks();
    }
    return counts;
  }

  TempDir directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreArraysTest, CountsFollowTheTasksAlsoAfterReopening) {
  const uint64_t id = Add("r", 3).id();
  EXPECT_THAT(CountsOf(id), ElementsAre(Pair(v1::QUEUED, 3)));
  Move(id + 1, v1::RUNNING);
  Move(id + 2, v1::SUCCEEDED);
  Reopen();
  EXPECT_THAT(CountsOf(id),
              ElementsAre(Pair(v1::QUEUED, 1), Pair(v1::RUNNING, 1),
                          Pair(v1::SUCCEEDED, 1)));
}

TEST_F(StoreArraysTest, TasksThatAreForgottenStayCountedUntilTheLastIsGone) {
  const uint64_t id = Add("r", 3).id();
  Move(id + 1, v1::SUCCEEDED);
  Move(id + 2, v1::FAILED);
  Move(id + 3, v1::CANCELLED);
  Commit({.delete_jobs = {id + 1, id + 2}});
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob(id + 1).status()));
  EXPECT_THAT(CountsOf(id),
              ElementsAre(Pair(v1::SUCCEEDED, 1), Pair(v1::FAILED, 1),
                          Pair(v1::CANCELLED, 1)));
  Commit({.delete_jobs = {id + 3}});
  EXPECT_TRUE(absl::IsNotFound(store_->GetArray(id).status()));
}

TEST_F(StoreArraysTest, TasksThatAreForgottenTogetherTakeTheArrayWithThem) {
  const uint64_t id = Add("r", 2).id();
  Move(id + 1, v1::SUCCEEDED);
  Move(id + 2, v1::SUCCEEDED);
  Commit({.delete_jobs = {id + 1, id + 2}});
  EXPECT_TRUE(absl::IsNotFound(store_->GetArray(id).status()));
}

TEST_F(StoreArraysTest, AJobThatIsNoTaskTakesNoArrayWithIt) {
  const uint64_t id = Add("r", 1).id();
  v1::Job job;
  job.set_id(store_->AllocateId(IdKind::kJob));
  job.set_request_id("alone");
  job.set_state(v1::CANCELLED);
  job.mutable_end_time()->set_seconds(1);
  Commit({.upsert_jobs = {job}});
  Commit({.delete_jobs = {job.id()}});
  EXPECT_THAT(CountsOf(id), ElementsAre(Pair(v1::QUEUED, 1)));
}

TEST_F(StoreArraysTest, UnknownArrayIsNotFoundByItsId) {
  const auto found = store_->GetArray(77);
  EXPECT_TRUE(absl::IsNotFound(found.status()));
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("77"));
}

TEST_F(StoreArraysTest, IsFoundByItsRequestWithinItsTenant) {
  const uint64_t id = Add("r", 1, "tune", "alice").id();
  const auto found = store_->FindArrayByRequestId("alice", "r");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->id(), id);
  EXPECT_EQ((*found)->counts_size(), 1);
  EXPECT_FALSE(store_->FindArrayByRequestId("bob", "r")->has_value());
}

TEST_F(StoreArraysTest, ListsTheNewestFirstInPagesOfTenantAndName) {
  for (int i = 0; i < 3; ++i) Add(absl::StrCat("r", i), 2);
  Add("of-another", 1, "tune", "alice");
  Add("another-name", 1, "search");
  v1::ListArraysRequest request;
  request.set_tenant("default");
  request.set_name("tune");
  request.set_page_size(2);
  auto page = store_->ListArrays(request);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->arrays_size(), 2);
  EXPECT_GT(page->arrays(0).id(), page->arrays(1).id());
  EXPECT_EQ(page->arrays(0).counts(0).tasks(), 2u);
  request.set_page_token(page->next_page_token());
  page = store_->ListArrays(request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->arrays_size(), 1);
  EXPECT_EQ(page->next_page_token(), "");
  EXPECT_EQ(store_->ListArrays({})->arrays_size(), 5);
}

TEST_F(StoreArraysTest, AForeignPageTokenIsRefused) {
  v1::ListArraysRequest request;
  request.set_page_token("nonsense");
  EXPECT_TRUE(absl::IsInvalidArgument(store_->ListArrays(request).status()));
}

TEST_F(StoreArraysTest, JobsAreListedByTheirArray) {
  const uint64_t id = Add("r", 3).id();
  Add("r2", 2);
  v1::ListJobsRequest request;
  request.set_array_id(id);
  EXPECT_EQ(store_->ListJobs(request)->jobs_size(), 3);
  request.set_array_index(2);
  ASSERT_EQ(store_->ListJobs(request)->jobs_size(), 1);
  EXPECT_EQ(store_->ListJobs(request)->jobs(0).id(), id + 3);
  v1::ListJobsRequest others;
  others.set_without_tasks(true);
  EXPECT_EQ(store_->ListJobs(others)->jobs_size(), 0);
}

}  // namespace
}  // namespace gpupool::server
