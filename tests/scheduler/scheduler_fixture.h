// A scheduler with named devices and short functions for events. Every Send()
// checks all invariants.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/step/invariants.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

template <typename Wanted>
std::vector<Wanted> ActionsOf(const StepResult& result) {
  std::vector<Wanted> found;
  for (const Action& action : result.actions) {
    if (const auto* wanted = std::get_if<Wanted>(&action)) {
      found.push_back(*wanted);
    }
  }
  return found;
}

class SchedulerTest : public ::testing::Test {
 protected:
  DeviceId AddDevice(const std::string& name, uint64_t limit_bytes) {
    return state.AddDevice(name, name.substr(0, name.find(':')), limit_bytes);
  }
  DeviceId AddReadyDevice(const std::string& name, uint64_t limit_bytes) {
    const DeviceId id = AddDevice(name, limit_bytes);
    Send(WorkerReady{.device = id});
    return id;
  }

  // Adds ready "cuda" devices of 100 bytes, `devices` on each of `nodes`
  // machines.
  void AddNodes(uint32_t nodes, uint32_t devices) {
    for (uint32_t node = 0; node < nodes; ++node) {
      for (uint32_t i = 0; i < devices; ++i) {
        const DeviceId id =
            state.AddDevice(absl::StrCat("cuda:", node * devices + i), "cuda",
                            100, {.node = node});
        Send(WorkerReady{.device = id});
      }
    }
  }

  StepResult Send(const Event& event) {
    StepResult result = Step(state, event, now);
    const absl::Status sound = CheckInvariants(state, restoring);
    EXPECT_TRUE(sound.ok()) << sound;
    for (const JobChange& change : result.job_changes) {
      EXPECT_TRUE(CheckChange(change).ok()) << CheckChange(change);
    }
    return result;
  }

  // Submits a job with the next id.
  JobId Submit(uint64_t bytes, int priority = 0) {
    const JobId id(++last_job);
    Send(JobSubmitted{.id = id, .priority = priority, .bytes = bytes});
    return id;
  }
  JobId SubmitGang(uint64_t bytes, uint32_t devices, int priority = 0) {
    const JobId id(++last_job);
    Send(JobSubmitted{.id = id,
                      .priority = priority,
                      .bytes = bytes,
                      .device_count = devices});
    return id;
  }
  // Reports that the job's live attempt runs.
  void Begin(JobId id) {
    Send(AttemptStarted{DeviceOf(id), {id, job(id).attempt}});
  }
  StepResult End(JobId id, Outcome outcome, std::string message = "") {
    return Send(AttemptEnded{
        DeviceOf(id), {id, job(id).attempt}, outcome, std::move(message)});
  }
  StepResult EndRank(JobId id, size_t rank, Outcome outcome,
                     std::string message = "") {
    return Send(AttemptEnded{job(id).ranks.at(rank).device,
                             {id, job(id).attempt},
                             outcome,
                             std::move(message)});
  }
  // Returns the device of rank 0.
  DeviceId DeviceOf(JobId id) const { return job(id).ranks.at(0).device; }
  VersionId Create(const std::string& model, uint64_t number, uint64_t bytes) {
    const VersionId id(++last_version);
    Send(VersionCreated{id, model, number, bytes});
    return id;
  }
  // Loads the version and answers as a worker that succeeds.
  StepResult Load(VersionId id) {
    Send(VersionLoadRequested{id});
    return Send(VersionLoaded{id, *version(id).device, version(id).load});
  }

  const Job& job(JobId id) const { return state.jobs().at(id); }
  const Version& version(VersionId id) const { return state.versions().at(id); }

  State state;
  bool restoring = false;  // whether restored devices have not reported yet
  absl::Time now = absl::UnixEpoch();
  uint64_t last_job = 0;
  uint64_t last_version = 0;
};

// Two machines with two GPUs and four CPU devices each.
class TwoMachines : public SchedulerTest {
 protected:
  TwoMachines() {
    for (uint32_t node = 0; node < 2; ++node) {
      for (int i = 0; i < 2; ++i) Add("cuda", node);
      for (int i = 0; i < 4; ++i) Add("cpu", node);
    }
  }
  void Add(const std::string& kind, uint32_t node) {
    const DeviceId id =
        state.AddDevice(absl::StrCat(kind, ":", state.devices().size()), kind,
                        100, {.node = node});
    Send(WorkerReady{.device = id});
  }
};

}  // namespace gpupool::scheduler
