#include "server/devices.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpupool::server {
namespace {

constexpr uint32_t kMaxCpuDevices = 64;
constexpr uint64_t kMiB = uint64_t{1} << 20;

uint32_t CountCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

// The machine's memory, or less where a container is allowed less.
uint64_t MemoryBytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  uint64_t limit = 0;
  if (limit_file >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

absl::Status BadDevices(absl::string_view devices) {
  return absl::InvalidArgumentError(
      absl::StrCat("devices is \"", devices, "\"; write auto, cpu:N (1 .. ",
                   kMaxCpuDevices, ") or cuda:0,1"));
}

// Cores and bytes are shared out evenly; the first devices get the rest.
std::vector<DeviceChoice> CpuDevices(uint32_t count, uint64_t memory_bytes,
                                     const MachineFacts& machine) {
  const uint64_t share = machine.memory_bytes / 2 / count / kMiB * kMiB;
  std::vector<DeviceChoice> choices;
  for (uint32_t i = 0; i < count; ++i) {
    DeviceChoice choice;
    choice.name = absl::StrCat("cpu:", i);
    choice.limit_bytes = memory_bytes != 0 ? memory_bytes : share;
    choice.threads = std::max<uint32_t>(
        1, machine.cores / count + (i < machine.cores % count ? 1 : 0));
    choices.push_back(choice);
  }
  return choices;
}

absl::Status CheckGpu(uint32_t index, uint64_t memory_bytes,
                      const MachineFacts& machine) {
  if (machine.gpus.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "there is no CUDA device cuda:", index, ": ", machine.no_gpus,
        "; put that right (`gpupool doctor` says how) or use --devices cpu:N"));
  }
  if (index >= machine.gpus.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no cuda:", index, ": the NVIDIA driver shows ",
                     machine.gpus.size(), " CUDA devices (numbered from 0)"));
  }
  if (memory_bytes <= machine.gpus[index].bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("device-memory is ", memory_bytes, " bytes; of cuda:", index,
                   " ", machine.gpus[index].bytes, " can be used"));
}

// Of those GPUs, in this order.
void AddLinks(const std::vector<uint32_t>& indices, const MachineFacts& machine,
              std::vector<DeviceChoice>& choices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::vector<scheduler::Link>& links = machine.gpus[indices[i]].links;
    if (links.empty()) continue;
    for (uint32_t other : indices) choices[i].links.push_back(links[other]);
  }
}

absl::StatusOr<std::vector<DeviceChoice>> GpuDevices(
    absl::string_view list, uint64_t memory_bytes,
    const MachineFacts& machine) {
  std::vector<DeviceChoice> choices;
  std::vector<uint32_t> indices;
  absl::flat_hash_set<uint32_t> seen;
  for (absl::string_view word : absl::StrSplit(list, ',')) {
    uint32_t index = 0;
    if (!absl::SimpleAtoi(word, &index) || !seen.insert(index).second) {
      return BadDevices(absl::StrCat("cuda:", list));
    }
    const absl::Status status = CheckGpu(index, memory_bytes, machine);
    if (!status.ok()) return status;
    indices.push_back(index);
    choices.push_back(
        {absl::StrCat("cuda:", index),
         memory_bytes != 0 ? memory_bytes : machine.gpus[index].bytes, 1});
  }
  AddLinks(indices, machine, choices);
  return choices;
}

}  // namespace

MachineFacts ReadMachineFacts() {
  MachineFacts machine;
  machine.cores = CountCores();
  machine.memory_bytes = MemoryBytes();
  return machine;
}

bool MayMeanGpus(absl::string_view devices) {
  return devices == "auto" || absl::StartsWith(devices, "cuda");
}

absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view devices, uint64_t memory_bytes,
    const MachineFacts& machine) {
  absl::string_view rest = devices;
  if (devices == "auto") {
    if (machine.gpus.empty()) {
      return CpuDevices(machine.cores > 1 ? 2 : 1, memory_bytes, machine);
    }
    std::string list = "0";
    for (size_t i = 1; i < machine.gpus.size(); ++i) {
      absl::StrAppend(&list, ",", i);
    }
    return GpuDevices(list, memory_bytes, machine);
  }
  if (absl::ConsumePrefix(&rest, "cuda:")) {
    return GpuDevices(rest, memory_bytes, machine);
  }
  uint32_t count = 0;
  if (!absl::ConsumePrefix(&rest, "cpu:") || !absl::SimpleAtoi(rest, &count) ||
      count < 1 || count > kMaxCpuDevices) {
    return BadDevices(devices);
  }
  return CpuDevices(count, memory_bytes, machine);
}

}  // namespace gpupool::server
