// The store when the power fails at each of its calls to the disk. Everything
// that was acknowledged must be there once, and nothing partly. The seed is
// printed. GPUPOOL_POWER_CUT_SEED sets another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>

#include "SQLiteCpp/SQLiteCpp.h"
#include "absl/strings/str_cat.h"
#include "server/store/store.h"
#include "tests/server/store/faulty_vfs.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

uint64_t Seed() {
  const char* text = std::getenv("GPUPOOL_POWER_CUT_SEED");
  const uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  std::cout << "GPUPOOL_POWER_CUT_SEED=" << seed << "\n";
  return seed;
}

// The content of a store, as text by name.
using Rows = std::map<std::string, std::string>;

Rows Expected(const WriteBatch& batch, Rows rows) {
  for (const auto& job : batch.upsert_jobs) {
    rows[absl::StrCat("job ", job.id())] = job.SerializeAsString();
  }
  for (const auto& event : batch.append_events) {
    rows[absl::StrCat("event ", event.job_id(), " ", event.sequence())] =
        event.SerializeAsString();
  }
  for (const auto& checkpoint : batch.upsert_checkpoints) {
    rows[absl::StrCat("checkpoint ", checkpoint.job_id(), " ",
                      checkpoint.step())] = checkpoint.SerializeAsString();
  }
  for (const auto& [name, value] : batch.set_counters) {
    rows[absl::StrCat("counter ", name)] = absl::StrCat(value);
  }
  for (const auto& name : batch.delete_counters) {
    rows.erase(absl::StrCat("counter ", name));
  }
  return rows;
}

absl::StatusOr<Rows> ReadAll(const Store& store) {
  WriteBatch all;
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  auto jobs = store.ListJobs(request);
  auto checkpoints = store.LoadCheckpoints(0);
  auto counters = store.LoadCounters("");
  if (!jobs.ok()) return jobs.status();
  if (!checkpoints.ok()) return checkpoints.status();
  if (!counters.ok()) return counters.status();
  for (const auto& job : jobs->jobs()) {
    all.upsert_jobs.push_back(job);
    auto events = store.ReadEvents(job.id(), 0, 100000);
    if (!events.ok()) return events.status();
    for (auto& event : *events) all.append_events.push_back(event);
  }
  all.upsert_checkpoints = *checkpoints;
  all.set_counters = *counters;
  return Expected(all, {});
}

v1::Job JobIn(uint64_t id, v1::JobState state) {
  v1::Job job;
  job.set_id(id);
  job.mutable_spec()->set_name("job");
  job.set_request_id(absl::StrCat("request-", id));
  job.set_state(state);
  job.set_waiting_reason(std::string(3000, 'w'));  // most of a page
  return job;
}

v1::JobEvent EventOf(uint64_t job, uint64_t sequence, size_t bytes) {
  v1::JobEvent event;
  event.set_job_id(job);
  event.set_sequence(sequence);
  event.mutable_log()->set_text(std::string(bytes, 'e'));
  return event;
}

// The life of jobs, batch by batch. An empty batch closes the store and opens
// it again. Every batch allocates an id, so that ids advance with the batches.
constexpr int kBatches = 9;
WriteBatch BatchNumber(int number, Store& store) {
  WriteBatch batch;
  const uint64_t id = store.AllocateId(IdKind::kJob);
  switch (number) {
    case 0:  // submitted
    case 1:
    case 5:
      batch.upsert_jobs.push_back(JobIn(id, v1::QUEUED));
      batch.append_events.push_back(EventOf(id, 1, 10));
      batch.set_counters["reports/cpu:0"] = id;
      break;
    case 2:  // progress
      batch.upsert_jobs.push_back(JobIn(1, v1::RUNNING));
      for (int i = 2; i < 6; ++i) {
        batch.append_events.push_back(EventOf(1, i, 2000));
      }
      batch.set_counters["failures/1"] = 1;
      break;
    case 3: {  // a checkpoint
      v1::Checkpoint& checkpoint = batch.upsert_checkpoints.emplace_back();
      checkpoint.set_job_id(1);
      checkpoint.set_step(100);
      batch.append_events.push_back(EventOf(1, 6, 10));
      break;
    }
    case 6:  // ended
      batch.upsert_jobs.push_back(JobIn(1, v1::SUCCEEDED));
      batch.upsert_jobs.push_back(JobIn(2, v1::CANCELLED));
      batch.append_events.push_back(EventOf(1, 7, 10));
      batch.append_events.push_back(EventOf(2, 2, 10));
      batch.delete_counters.push_back("failures/1");
      break;
    case 8:  // much
      batch.append_events.push_back(EventOf(2, 3, 40000));
      break;
    default:
      break;
  }
  return batch;
}

struct Run {
  std::vector<Rows> states = {{}};  // after each acknowledged batch
  Rows next;  // the content if the batch that failed had been written
};

Run Live(const std::string& path) {
  Run run;
  auto store = Store::Open(path);
  for (int i = 0; i < kBatches && store.ok(); ++i) {
    const WriteBatch batch = BatchNumber(i, **store);
    if (batch.empty()) {
      store->reset();
      store = Store::Open(path);
      continue;
    }
    run.next = Expected(batch, run.states.back());
    if (!(*store)->Commit(batch).ok()) return run;
    run.states.push_back(run.next);
  }
  return run;
}

// Returns what is wrong with the database, or "".
std::string Compare(const std::string& path, const Run& run) {
  auto store = Store::Open(path);
  if (!store.ok())
    return absl::StrCat("does not open: ", store.status().ToString());
  const auto rows = ReadAll(**store);
  if (!rows.ok()) return rows.status().ToString();
  if (*rows != run.states.back() && *rows != run.next) {
    const bool older = std::find(run.states.begin(), run.states.end(), *rows) !=
                       run.states.end();
    return older ? "an acknowledged batch is lost" : "a batch is there by half";
  }
  for (const auto& [name, row] : *rows) {
    uint64_t id = 0;
    if (std::sscanf(name.c_str(), "job %lu", &id) == 1 &&
        (*store)->AllocateId(IdKind::kJob) <= id) {
      return "an id is given again";
    }
  }
  SQLite::Database database(path, SQLite::OPEN_READWRITE);
  const std::string check =
      database.execAndGet("PRAGMA integrity_check").getString();
  return check == "ok" ? "" : check;
}

// Keeps temporary files in memory, since there are thousands that need not
// last.
void UseMemoryForTemporaryFiles() {
  if (std::filesystem::is_directory("/dev/shm")) {
    setenv("TMPDIR", "/dev/shm", /*overwrite=*/0);
  }
}

struct Tried {
  int cuts = 0;
  int bad = 0;
  std::string first;
};

// Cuts the power at every call of the workload, and checks `outcomes` possible
// contents of the disk each time.
Tried CutEverywhere(uint64_t seed, bool lie, int outcomes) {
  UseMemoryForTemporaryFiles();
  Tried tried;
  std::mt19937_64 random(seed);
  for (int call = 0;; ++call) {
    TempDir directory;
    FaultyVfs vfs;
    if (lie) vfs.LieAboutSyncs();
    vfs.CutPowerAt(call);
    const Run run = Live(directory / "gpupool.db");
    const bool whole = !vfs.power_is_off();
    const DiskImage image = vfs.image();
    vfs.Heal();
    for (int i = 0; i < outcomes; ++i) {
      TempDir after;
      image.Survive(after.path(), random);
      const std::string wrong = Compare(after / "gpupool.db", run);
      if (wrong.empty()) continue;
      if (tried.bad++ == 0) {
        tried.first = absl::StrCat("power cut at call ", call, ": ", wrong);
      }
    }
    tried.cuts = call + 1;
    if (whole) return tried;
  }
}

TEST(PowerCutTest, AnAcknowledgedBatchIsThereOnceAndNoneByHalf) {
  const Tried tried = CutEverywhere(Seed(), /*lie=*/false, /*outcomes=*/6);
  std::cout << tried.cuts << " cuts, 6 outcomes each\n";
  EXPECT_EQ(tried.bad, 0) << tried.first;
  EXPECT_GT(tried.cuts, 60);
}

// If this test passed with syncs that do nothing, it would prove nothing.
TEST(PowerCutTest, CanaryDisksThatLieAboutSyncsAreFound) {
  const Tried tried = CutEverywhere(Seed(), /*lie=*/true, /*outcomes=*/6);
  std::cout << "the canary says: " << tried.first << "\n";
  EXPECT_GT(tried.bad, 0);
}

}  // namespace
}  // namespace gpupool::server
