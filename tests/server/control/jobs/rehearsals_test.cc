#include "server/control/jobs/rehearsals.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/pool/worker_end.h"
#include "tests/server/control/fake_workers.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class RehearsalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    workers_.rehearsal = [this](const worker::v1::ToWorker& message) {
      sent_.push_back(message.load_version());
      jobs_.push_back(message.plan_training());
      return answer_;
    };
    rehearsals_.Start(&workers_);
  }
  // Begins a rehearsal, whose status comes to `done`.
  void Add(const std::string& name, std::optional<absl::Status>& done) {
    worker::v1::LoadVersion version;
    version.set_name(name);
    rehearsals_.Add(version,
                    [&done](absl::Status status) { done = std::move(status); });
  }

  FakeWorkers workers_;
  absl::StatusOr<worker::v1::FromWorker> answer_ = worker::v1::FromWorker();
  std::vector<worker::v1::LoadVersion> sent_;
  std::vector<worker::v1::PlanTraining> jobs_;
  Rehearsals rehearsals_;
  std::optional<absl::Status> first_, second_;
};

TEST_F(RehearsalsTest, GivesTheWorkersAnswer) {
  Add("a/1", first_);
  EXPECT_TRUE(first_->ok());
  answer_ = absl::InvalidArgumentError("no such layer");
  Add("b/1", second_);
  EXPECT_EQ(*second_, absl::InvalidArgumentError("no such layer"));
}

TEST_F(RehearsalsTest, WaitsForTheWorker) {
  answer_ = absl::UnavailableError("is starting");
  Add("a/1", first_);
  Add("b/1", second_);
  EXPECT_FALSE(first_.has_value());
  EXPECT_EQ(sent_.size(), 1u);  // one at a time
  answer_ = worker::v1::FromWorker();
  rehearsals_.WorkerIsReady();
  EXPECT_TRUE(first_->ok());
  EXPECT_TRUE(second_->ok());
}

TEST_F(RehearsalsTest, OneThatComesWhenAnotherEndsIsSentOnce) {
  worker::v1::LoadVersion version;
  version.set_name("a/1");
  rehearsals_.Add(version, [this](const absl::Status& status) {
    first_ = status;
    answer_ = absl::UnavailableError("is starting");
    Add("b/1", second_);
  });
  EXPECT_TRUE(first_->ok());
  EXPECT_FALSE(second_.has_value());
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(RehearsalsTest, OnlyTheOneThatEndsTheWorkerIsRefused) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("bad/1", first_);
  Add("good/1", second_);
  rehearsals_.WorkerIsLost(absl::UnavailableError("signal 6"),
                           {.version_id = sent_[0].version_id()});
  EXPECT_EQ(first_->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(first_->message()), HasSubstr("signal 6"));
  EXPECT_FALSE(second_.has_value());
  answer_ = worker::v1::FromWorker();
  rehearsals_.WorkerIsReady();
  EXPECT_TRUE(second_->ok());
  EXPECT_EQ(sent_.back().name(), "good/1");
}

TEST_F(RehearsalsTest, SaysThatItTookTooLong) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("slow/1", first_);
  rehearsals_.WorkerIsLost(absl::UnavailableError("killed by signal 14"),
                           {.version_id = sent_[0].version_id()});
  EXPECT_THAT(std::string(first_->message()), HasSubstr("took too long"));
}

TEST_F(RehearsalsTest, OneThatIsKilledFromOutsideIsTriedOnceMore) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("good/1", first_);
  rehearsals_.WorkerIsLost(absl::UnavailableError("killed by signal 9"),
                           {.version_id = sent_[0].version_id()});
  EXPECT_FALSE(first_.has_value());
  answer_ = worker::v1::FromWorker();
  rehearsals_.WorkerIsReady();
  EXPECT_TRUE(first_->ok());
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(RehearsalsTest, OneThatIsKilledFromOutsideTwiceIsRefused) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("large/1", first_);
  Add("next/1", second_);
  const absl::Status killed = absl::UnavailableError("killed by signal 9");
  rehearsals_.WorkerIsLost(killed, {.version_id = sent_[0].version_id()});
  rehearsals_.WorkerIsReady();
  // The owner of a batch that was killed is not known.
  rehearsals_.WorkerIsLost(killed, {});
  ASSERT_TRUE(first_.has_value());
  EXPECT_EQ(first_->code(), absl::StatusCode::kResourceExhausted);
  for (const char* text :
       {"loaded and run alone 2 times", "outside of the server",
        "killed by signal 9", "memory runs out", "`gpupool models load`"}) {
    EXPECT_THAT(std::string(first_->message()), HasSubstr(text));
  }
  // Kills are counted for each rehearsal.
  rehearsals_.WorkerIsReady();
  rehearsals_.WorkerIsLost(killed, {.version_id = sent_.back().version_id()});
  EXPECT_FALSE(second_.has_value());
}

TEST_F(RehearsalsTest, AKillByTheServerIsNoKillFromOutside) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("bad/1", first_);
  rehearsals_.WorkerIsLost(
      absl::UnavailableError(absl::StrCat(
          "no message (process 7: killed by signal 9", kByServer, ")")),
      {.version_id = sent_[0].version_id()});
  ASSERT_TRUE(first_.has_value());
  EXPECT_EQ(first_->code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RehearsalsTest, AJobThatIsKilledFromOutsideTwiceIsRefused) {
  answer_ = absl::UnavailableError("ended during the request");
  rehearsals_.AddTraining(
      {}, [this](absl::Status status) { first_ = std::move(status); });
  const absl::Status killed = absl::UnavailableError("killed by signal 9");
  rehearsals_.WorkerIsLost(killed, {.job_id = 1});
  EXPECT_FALSE(first_.has_value());
  rehearsals_.WorkerIsReady();
  // The process was killed before it began with the job.
  rehearsals_.WorkerIsLost(killed, {});
  EXPECT_FALSE(first_.has_value());
  rehearsals_.WorkerIsReady();
  rehearsals_.WorkerIsLost(killed, {.job_id = 1});
  ASSERT_TRUE(first_.has_value());
  EXPECT_EQ(first_->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(first_->message()),
              HasSubstr("one step of it was made alone 2 times"));
  EXPECT_THAT(std::string(first_->message()),
              HasSubstr("submit the job again"));
}

TEST_F(RehearsalsTest, EndsOfTheWorkerByItselfAreNotTheVersions) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("a/1", first_);
  for (int i = 0; i < 2; ++i) {
    rehearsals_.WorkerIsLost(absl::UnavailableError("signal 9"), {});
    EXPECT_FALSE(first_.has_value());
    rehearsals_.WorkerIsReady();
  }
  // But it does not wait for ever.
  rehearsals_.WorkerIsLost(absl::UnavailableError("signal 9"), {});
  EXPECT_EQ(first_->code(), absl::StatusCode::kUnavailable);
}

TEST_F(RehearsalsTest, AWorkerThatIsNotHeardIsNotTheVersionsFault) {
  answer_ = absl::UnavailableError("ended during the request");
  Add("good/1", first_);
  for (const absl::Status& reason :
       {absl::UnavailableError(absl::StrCat(
            kNoHeartbeat, " for 5s (process 7: killed by signal 9)")),
        absl::DeadlineExceededError("the worker hangs")}) {
    rehearsals_.WorkerIsLost(reason, {.version_id = sent_[0].version_id()});
    EXPECT_FALSE(first_.has_value()) << reason;
  }
  answer_ = worker::v1::FromWorker();
  rehearsals_.WorkerIsReady();
  EXPECT_TRUE(first_->ok());
}

TEST_F(RehearsalsTest, AJobThatEndsTheWorkerIsRefused) {
  answer_ = absl::UnavailableError("ended during the request");
  worker::v1::PlanTraining job;
  job.mutable_spec()->set_name("digits");
  rehearsals_.AddTraining(
      job, [this](absl::Status status) { first_ = std::move(status); });
  ASSERT_EQ(jobs_.size(), 1u);
  EXPECT_TRUE(jobs_[0].make_step());
  EXPECT_EQ(jobs_[0].spec().name(), "digits");
  rehearsals_.WorkerIsLost(absl::UnavailableError("signal 9"), {});
  EXPECT_FALSE(first_.has_value());
  rehearsals_.WorkerIsLost(absl::UnavailableError("signal 11"), {.job_id = 1});
  EXPECT_EQ(first_->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(first_->message()),
              HasSubstr("one step of it was made alone, and that ended the "
                        "process: signal 11"));
}

TEST_F(RehearsalsTest, ATenantsManyJobsLetOthersGoBetween) {
  answer_ = absl::UnavailableError("is starting");
  for (const char* name : {"a1", "a2", "a3", "b1"}) {
    worker::v1::PlanTraining job;
    job.mutable_spec()->set_name(name);
    job.mutable_spec()->set_tenant(std::string(name, 1));
    rehearsals_.AddTraining(job, [](const absl::Status&) {});
  }
  Add("digits/1", first_);
  jobs_.clear();
  answer_ = worker::v1::FromWorker();
  rehearsals_.WorkerIsReady();
  std::vector<std::string> names;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    names.push_back(jobs_[i].spec().name() + sent_[i + 1].name());
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("a1", "b1", "a2", "digits/1", "a3"));
}

TEST_F(RehearsalsTest, WithoutWorkersNothingIsTried) {
  Rehearsals rehearsals;
  std::optional<absl::Status> done;
  rehearsals.Add({}, [&done](absl::Status status) { done = status; });
  EXPECT_EQ(done->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpupool::server
