#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/cuda_devices.h"
#include "server/worker/doctor/judge.h"

namespace gpupool::server {
namespace {

using engine::cuda::kNotTold;
using engine::cuda::NvmlGpu;
using engine::cuda::NvmlProcess;
using engine::cuda::SurveyedGpu;

// Compute modes of the management library (nvmlComputeMode_t).
constexpr int kExclusiveThread = 1;
constexpr int kProhibited = 2;
constexpr int kExclusiveProcess = 3;
// Maximum number of pairs that fit a line.
constexpr size_t kMostPairs = 4;
constexpr size_t kMostHolders = 4;
constexpr char kWorker[] = "gpupool-worker";

std::string NameOf(size_t index) { return absl::StrCat("cuda:", index); }

// Returns the management library's index of the GPU with that uuid, or -1.
int NvmlIndex(const DoctorFacts& facts, const std::string& uuid) {
  for (size_t i = 0; i < facts.nvml.gpus.size(); ++i) {
    if (!uuid.empty() && facts.nvml.gpus[i].uuid == uuid) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Tells whether the module's code runs on the GPU, and whether it must be
// compiled at the start.
void JudgeMachineCode(const DoctorFacts& facts, size_t index,
                      Findings& findings) {
  const engine::ModuleArchitectures& code = facts.module.architectures;
  const int capability = facts.driver.gpus[index].capability;
  if (code.machine_code.empty() && code.ptx.empty()) return;
  if (capability < engine::kOldestCapability) {
    findings.Add("gpu.too_old", {NameOf(index), CapabilityText(capability)});
  } else if (!engine::RunsOn(code, capability)) {
    findings.Add("gpu.no_code",
                 {NameOf(index), CapabilityText(capability),
                  engine::ToText(code), absl::StrCat(capability)});
  } else if (!engine::HasMachineCode(code, capability)) {
    findings.Add(
        "gpu.compiled_at_start",
        {NameOf(index), CapabilityText(capability), absl::StrCat(capability)});
  }
}

// Returns the process's name, or only its number when the name is unknown.
std::string HolderText(const DoctorFacts& facts, const NvmlProcess& process) {
  const auto name = facts.process_names.find(process.pid);
  return absl::StrCat(
      name == facts.process_names.end() ? "process" : name->second, " ",
      process.pid,
      process.bytes == kNotTold
          ? ""
          : absl::StrCat(" (", BytesText(static_cast<uint64_t>(process.bytes)),
                         ")"));
}

// Returns the first kMostHolders processes that hold memory.
std::string HoldersText(const DoctorFacts& facts, const NvmlGpu& gpu) {
  std::vector<std::string> holders;
  for (const NvmlProcess& process : gpu.processes) {
    if (holders.size() == kMostHolders) {
      holders.push_back(
          absl::StrCat(gpu.processes.size() - kMostHolders, " more"));
      break;
    }
    holders.push_back(HolderText(facts, process));
  }
  return holders.empty() ? "processes that are not shown here"
                         : absl::StrJoin(holders, ", ");
}

// Returns whether a running server's own workers hold the memory.
bool HeldByOwnWorkers(const DoctorFacts& facts, const NvmlGpu& gpu) {
  return std::any_of(
      gpu.processes.begin(), gpu.processes.end(), [&](const auto& process) {
        const auto name = facts.process_names.find(process.pid);
        return name != facts.process_names.end() && name->second == kWorker;
      });
}

// Tells when other processes hold memory that the engine would use.
void JudgeFreeMemory(const DoctorFacts& facts, size_t index, const NvmlGpu& gpu,
                     Findings& findings) {
  if (gpu.free_bytes == kNotTold || HeldByOwnWorkers(facts, gpu)) return;
  engine::DeviceFacts device;
  device.total_bytes = static_cast<uint64_t>(gpu.total_bytes);
  const auto free = static_cast<uint64_t>(gpu.free_bytes);
  if (free >= engine::UsableBytes(device)) return;
  findings.Add("gpu.memory_held",
               {NameOf(index), BytesText(free), BytesText(device.total_bytes),
                HoldersText(facts, gpu)});
}

// Judges what an administrator can set. `number` is the GPU's index in
// nvidia-smi, for the commands of remedies; CUDA may count otherwise.
void JudgeSettings(const std::string& name, const std::string& number,
                   const NvmlGpu& gpu, Findings& findings) {
  if (gpu.compute_mode == kProhibited) {
    findings.Add("gpu.prohibited", {name, number});
  } else if (gpu.compute_mode == kExclusiveThread ||
             gpu.compute_mode == kExclusiveProcess) {
    findings.Add("gpu.exclusive", {name, number});
  }
  if (gpu.mig == 1) findings.Add("gpu.mig", {name, number});
}

void JudgeHealth(const std::string& name, const std::string& number,
                 const NvmlGpu& gpu, Findings& findings) {
  if (gpu.uncorrected_errors > 0) {
    findings.Add("gpu.memory_errors",
                 {name, absl::StrCat(gpu.uncorrected_errors), number});
  }
  if (gpu.remap_failed == 1) {
    findings.Add("gpu.remap_failed", {name});
  } else if (gpu.remap_pending == 1) {
    findings.Add("gpu.remap_pending", {name, number});
  }
}

void JudgeGpu(const DoctorFacts& facts, size_t index, Findings& findings) {
  const SurveyedGpu& gpu = facts.driver.gpus[index];
  const int at = NvmlIndex(facts, gpu.uuid);
  const NvmlGpu told = at < 0 ? NvmlGpu() : facts.nvml.gpus[at];
  findings.Add("gpu.ok",
               {NameOf(index), gpu.name, BytesText(gpu.total_bytes),
                told.free_bytes == kNotTold
                    ? "nobody tells how much"
                    : BytesText(static_cast<uint64_t>(told.free_bytes)),
                CapabilityText(gpu.capability)});
  JudgeMachineCode(facts, index, findings);
  if (!gpu.virtual_memory) {
    findings.Add("gpu.no_virtual_memory", {NameOf(index)});
  }
  if (at < 0) return;
  JudgeFreeMemory(facts, index, told, findings);
  JudgeSettings(NameOf(index), absl::StrCat(at), told, findings);
  JudgeHealth(NameOf(index), absl::StrCat(at), told, findings);
}

// Judges all GPUs at once, since eight of them would repeat one finding.
void JudgePersistence(const DoctorFacts& facts, Findings& findings) {
  std::vector<std::string> off;
  for (size_t i = 0; i < facts.driver.gpus.size(); ++i) {
    const int at = NvmlIndex(facts, facts.driver.gpus[i].uuid);
    if (at >= 0 && facts.nvml.gpus[at].persistence == 0) {
      off.push_back(NameOf(i));
    }
  }
  if (!off.empty()) {
    findings.Add("gpu.persistence_off", {absl::StrJoin(off, ", ")});
  }
}

// Tells when CUDA_VISIBLE_DEVICES hides GPUs. The management library ignores
// that variable and sees all of them.
void JudgeHidden(const DoctorFacts& facts, Findings& findings) {
  const auto visible = facts.host.environment.find("CUDA_VISIBLE_DEVICES");
  const size_t shown = facts.driver.gpus.size();
  const size_t all = facts.nvml.gpus.size();
  if (visible == facts.host.environment.end() || shown == 0 || shown >= all) {
    return;
  }
  findings.Add("gpu.some_hidden",
               {visible->second, absl::StrCat(shown), absl::StrCat(all)});
}

}  // namespace

void JudgeGpus(const DoctorFacts& facts, Findings& findings) {
  for (size_t i = 0; i < facts.driver.gpus.size(); ++i) {
    JudgeGpu(facts, i, findings);
  }
  // One lost GPU may hide all GPUs from CUDA.
  for (size_t i = 0; i < facts.nvml.gpus.size(); ++i) {
    const NvmlGpu& gpu = facts.nvml.gpus[i];
    if (gpu.code == 0) continue;
    findings.Add("gpu.lost", {absl::StrCat("GPU ", i, " of nvidia-smi"),
                              absl::StrCat(gpu.code)});
  }
  JudgePersistence(facts, findings);
  JudgeHidden(facts, findings);
}

void JudgePeers(const DoctorFacts& facts, Findings& findings) {
  const auto& gpus = facts.driver.gpus;
  std::vector<std::string> apart;
  for (size_t a = 0; a < gpus.size(); ++a) {
    for (size_t b = a + 1; b < gpus.size(); ++b) {
      if (gpus[a].peers.size() == gpus.size() && gpus[a].peers[b]) continue;
      apart.push_back(absl::StrCat(NameOf(a), " and ", NameOf(b)));
    }
  }
  if (gpus.size() < 2) return;
  if (apart.empty()) {
    findings.Add("peer.ok",
                 {absl::StrCat(gpus.size()),
                  facts.links.empty() ? "nobody tells by which links"
                                      : absl::StrJoin(facts.links, ", ")});
    return;
  }
  if (apart.size() > kMostPairs) {
    const size_t more = apart.size() - kMostPairs;
    apart.resize(kMostPairs);
    apart.push_back(absl::StrCat(more, " more pairs"));
  }
  findings.Add("peer.none", {absl::StrJoin(apart, ", ")});
}

}  // namespace gpupool::server
