#include <gtest/gtest.h>

#include "server/worker/doctor/judge.h"
#include "tests/server/worker/doctor/judge_cases.h"

namespace gpupool::server {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::vector<JudgeCase> LimitCases() {
  return {
      {"limits.ok", [](DoctorFacts&) {}, "16 cores and 256 GiB of memory"},
      {"limits.ok", [](DoctorFacts& facts) { facts.host.memory_bytes = 0; },
       "16 cores and an unknown amount of memory"},
      {"limits.memory",
       [](DoctorFacts& facts) { facts.host.cgroup_memory_bytes = 2048 * kMiB; },
       "2 GiB of memory may be used, but 2 GPU workers need about 3.5 GiB on "
       "the host, 256 MiB of each",
       "--slots"},
      {"limits.locked_memory",
       [](DoctorFacts& facts) { facts.host.locked_bytes = 8 * kMiB; },
       "`ulimit -l` is 8 MiB, less than the 256 MiB", "memlock=-1"},
      {"limits.shared_memory",
       [](DoctorFacts& facts) { facts.host.shm_bytes = 64 * kMiB; }, "64 MiB",
       "--shm-size"},
      {"limits.open_files",
       [](DoctorFacts& facts) { facts.host.open_files = 256; },
       "`ulimit -n` is 256"},
      {"limits.cores",
       [](DoctorFacts& facts) { facts.host.cgroup_cores = 2.5; },
       "16 cores are seen, but the container may use the time of 2.5"},
      {"limits.processes",
       [](DoctorFacts& facts) { facts.host.cgroup_processes = 100; },
       "100 processes", "--pids-limit"},
      {"limits.overcommit",
       [](DoctorFacts& facts) { facts.host.strict_overcommit = true; }},
      {"limits.addresses",
       [](DoctorFacts& facts) { facts.host.address_bytes = 4096 * kMiB; },
       "`ulimit -v` is 4 GiB", "unlimited"},
      {"limits.blocked_call",
       [](DoctorFacts& facts) { facts.host.blocked_calls = {"pidfd_open"}; },
       "pidfd_open", "seccomp"},
      {"limits.sandbox",
       [](DoctorFacts& facts) { facts.host.missing_layers = {"Landlock"}; },
       "the system has no Landlock", "tokenizer need `--sandbox off`"},
  };
}

namespace {

TEST(JudgeLimitsTest, WithoutGpusNothingIsPinnedOrShared) {
  DoctorFacts facts = MachineWithoutGpu();
  facts.host.locked_bytes = 0;
  facts.host.shm_bytes = 0;
  facts.host.cgroup_memory_bytes = 512 * kMiB;
  Findings findings;
  JudgeLimits(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kOk);
}

TEST(JudgeLimitsTest, AQuotaOfAllCoresIsNone) {
  DoctorFacts facts = HealthyMachine();
  facts.host.cgroup_cores = 15.5;
  Findings findings;
  JudgeLimits(facts, findings);
  EXPECT_EQ(findings.worst(), Severity::kOk);
}

}  // namespace
}  // namespace gpupool::server
