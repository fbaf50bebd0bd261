#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/worker/doctor/judge.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Host memory of a GPU's worker besides its slots: the driver's context and
// NVIDIA's libraries.
constexpr uint64_t kWorkerBytes = 1536 * kMiB;
// docker's default is 64 MiB; NCCL's buffers need some MiB per pair of ranks.
constexpr uint64_t kLeastShared = 512 * kMiB;
constexpr uint64_t kLeastFiles = 1024;
constexpr uint64_t kLeastProcesses = 512;

// Returns the machine's memory in words; the kernel may not tell it.
std::string MemoryText(uint64_t bytes) {
  return bytes == kNoLimit ? "an unknown amount" : BytesText(bytes);
}

void JudgeMemory(const DoctorFacts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  const size_t gpus = facts.driver.gpus.size();
  const uint64_t have =
      std::min(host.memory_bytes == 0 ? kNoLimit : host.memory_bytes,
               host.cgroup_memory_bytes);
  findings.Add("limits.ok", {absl::StrCat(host.cores), MemoryText(have)});
  const uint64_t need = gpus * (facts.ring_bytes + kWorkerBytes);
  if (have < need) {
    findings.Add("limits.memory",
                 {BytesText(have), absl::StrCat(gpus), BytesText(need),
                  BytesText(facts.ring_bytes)});
  }
  if (gpus > 0 && host.locked_bytes < facts.ring_bytes) {
    findings.Add("limits.locked_memory",
                 {BytesText(host.locked_bytes), BytesText(facts.ring_bytes)});
  }
  if (gpus > 1 && host.shm_bytes < kLeastShared) {
    findings.Add("limits.shared_memory", {BytesText(host.shm_bytes)});
  }
  if (host.strict_overcommit) findings.Add("limits.overcommit");
  if (host.address_bytes != kNoLimit) {
    findings.Add("limits.addresses", {BytesText(host.address_bytes)});
  }
}

}  // namespace

void JudgeLimits(const DoctorFacts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  JudgeMemory(facts, findings);
  if (host.open_files < kLeastFiles) {
    findings.Add("limits.open_files",
                 {absl::StrCat(host.open_files), absl::StrCat(kLeastFiles)});
  }
  if (host.cgroup_cores > 0 && std::ceil(host.cgroup_cores) < host.cores) {
    findings.Add("limits.cores", {absl::StrCat(host.cores),
                                  absl::StrFormat("%.3g", host.cgroup_cores)});
  }
  if (host.cgroup_processes < kLeastProcesses) {
    findings.Add("limits.processes", {absl::StrCat(host.cgroup_processes),
                                      absl::StrCat(kLeastProcesses)});
  }
  for (const std::string& call : host.blocked_calls) {
    findings.Add("limits.blocked_call", {call});
  }
  for (const std::string& layer : host.missing_layers) {
    findings.Add("limits.sandbox", {layer});
  }
}

}  // namespace gpupool::server
