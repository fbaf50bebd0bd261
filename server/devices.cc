#include "server/devices.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/device_list.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kLimitStep = uint64_t{1} << 20;

uint32_t CountCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

// Returns the machine's memory, or less when a container has less.
uint64_t MemoryBytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  uint64_t limit = 0;
  if (limit_file >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

// Part of the host that virtual CPU devices share.
struct HostShare {
  uint32_t cores = 1;
  uint64_t bytes = 0;
};

HostShare ShareBeside(size_t gpu_count, const MachineFacts& machine) {
  if (gpu_count == 0) return {machine.cores, machine.memory_bytes / 2};
  const auto busy =
      static_cast<uint32_t>(std::min<size_t>(gpu_count, machine.cores));
  return {(machine.cores - busy + 1) / 2, machine.memory_bytes / 4};
}

// Shares cores and bytes out evenly; the first devices get the remainder.
std::vector<DeviceChoice> CpuDevices(uint32_t count, const HostShare& host) {
  std::vector<DeviceChoice> choices;
  for (uint32_t i = 0; i < count; ++i) {
    DeviceChoice choice;
    choice.name = absl::StrCat("cpu:", i);
    choice.limit_bytes = host.bytes / count / kLimitStep * kLimitStep;
    choice.threads = std::max<uint32_t>(
        1, host.cores / count + (i < host.cores % count ? 1 : 0));
    choices.push_back(choice);
  }
  return choices;
}

absl::Status NoGpu(absl::string_view name, const MachineFacts& machine) {
  return absl::FailedPreconditionError(absl::StrCat(
      "there is no CUDA device ", name, ": ", machine.no_gpus,
      "; fix that (`gpupool doctor` says how) or use --devices cpu:1"));
}

// Checks that the GPU exists, is usable and has the wanted memory.
absl::Status CheckGpu(uint32_t index, uint64_t memory_bytes,
                      const MachineFacts& machine) {
  const std::string name = absl::StrCat("cuda:", index);
  if (machine.gpus.empty()) return NoGpu(name, machine);
  if (index >= machine.gpus.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "there is no ", name, ": the NVIDIA driver shows ", machine.gpus.size(),
        " CUDA devices (numbered from 0); write cuda for all"));
  }
  const std::string& refusal = machine.gpus[index].refusal;
  if (!refusal.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " cannot be used: ", refusal));
  }
  if (memory_bytes <= machine.gpus[index].bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("device-memory is ", memory_bytes, " bytes; of ", name, " ",
                   machine.gpus[index].bytes, " can be used"));
}

// Adds the links between the chosen GPUs, in this order.
void AddLinks(const std::vector<uint32_t>& indices, const MachineFacts& machine,
              std::vector<DeviceChoice>& choices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::vector<scheduler::Link>& links = machine.gpus[indices[i]].links;
    if (links.empty()) continue;
    for (uint32_t other : indices) choices[i].links.push_back(links[other]);
  }
}

// Returns the GPUs in the given order, each with its links to the others.
absl::StatusOr<std::vector<DeviceChoice>> GpuDevices(
    const std::vector<uint32_t>& indices, uint64_t memory_bytes,
    const MachineFacts& machine) {
  std::vector<DeviceChoice> choices;
  for (const uint32_t index : indices) {
    RETURN_IF_ERROR(CheckGpu(index, memory_bytes, machine));
    choices.push_back(
        {absl::StrCat("cuda:", index),
         memory_bytes != 0 ? memory_bytes : machine.gpus[index].bytes, 1});
    choices.back().facts = machine.gpus[index].facts;
  }
  AddLinks(indices, machine, choices);
  return choices;
}

// Returns the indices of the GPUs that workers can use.
std::vector<uint32_t> AllGpus(const MachineFacts& machine) {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < machine.gpus.size(); ++i) {
    if (machine.gpus[i].refusal.empty()) indices.push_back(i);
  }
  return indices;
}

// Replaces "auto" and "cuda" by indices and counts.
absl::StatusOr<DeviceList> OnThisMachine(DeviceList list,
                                         const MachineFacts& machine) {
  if (list.automatic) {
    list.gpus = AllGpus(machine);
    list.cpu_devices = list.gpus.empty() && machine.cores > 1 ? 2 : 1;
  }
  if (!list.all_gpus) return list;
  list.gpus = AllGpus(machine);
  if (!list.gpus.empty()) return list;
  // The check of the first GPU tells why none can be used.
  if (!machine.gpus.empty()) return CheckGpu(0, 0, machine);
  return NoGpu("at all", machine);
}

}  // namespace

MachineFacts ReadMachineFacts() {
  MachineFacts machine;
  machine.cores = CountCores();
  machine.memory_bytes = MemoryBytes();
  return machine;
}

absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view devices, uint64_t memory_bytes,
    const MachineFacts& machine) {
  const auto parsed = ParseDeviceList(devices);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "devices is \"", devices, "\": ", parsed.status().message()));
  }
  ASSIGN_OR_RETURN(const DeviceList list, OnThisMachine(*parsed, machine));
  ASSIGN_OR_RETURN(auto choices, GpuDevices(list.gpus, memory_bytes, machine));
  const bool beside_gpus = !choices.empty();
  for (DeviceChoice& choice :
       CpuDevices(list.cpu_devices, ShareBeside(choices.size(), machine))) {
    if (memory_bytes != 0) {
      choice.limit_bytes = beside_gpus
                               ? std::min(memory_bytes, choice.limit_bytes)
                               : memory_bytes;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace gpupool::server
