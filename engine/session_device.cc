#include "engine/session_device.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/cuda_devices.h"
#include "engine/memory/host_page_source.h"

namespace gpupool::engine {
namespace {

// Returns the physical memory of the machine.
uint64_t MachineMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return static_cast<uint64_t>(std::max(pages, 1L)) *
         static_cast<uint64_t>(std::max(page_bytes, 1L));
}

// Returns "" when the file cannot be read.
std::string TextOf(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

SessionDevice::~SessionDevice() = default;

std::unique_ptr<SessionDevice> SessionDevice::OfHost(const std::string& name,
                                                     uint64_t limit_bytes,
                                                     int threads) {
  auto device = absl::WrapUnique(new SessionDevice());
  device->limit_bytes_ = limit_bytes == 0 ? MachineMemoryBytes() : limit_bytes;
  const std::string cpuinfo = TextOf("/proc/cpuinfo");
  device->description_ = std::string(ProcessorField(cpuinfo, "model name"));
  device->peak_rates_ =
      PeakRatesOf(cpuinfo,
                  TextOf("/sys/devices/system/cpu/cpu0/cpufreq/"
                         "cpuinfo_max_freq"),
                  threads);
  device->host_pages_ = std::make_unique<HostPageSource>();
  device->host_backend_ = std::make_unique<CpuBackend>(threads);
  device->backend_ = device->host_backend_.get();
  device->allocator_ = std::make_unique<CachingAllocator>(
      name, device->limit_bytes_, device->host_pages_.get());
  return device;
}

absl::StatusOr<std::unique_ptr<SessionDevice>> SessionDevice::OfModule(
    const std::string& name, uint64_t limit_bytes,
    std::unique_ptr<ModuleDevice> module) {
  const DeviceFacts& facts = module->facts();
  const uint64_t usable = UsableBytes(facts);
  if (limit_bytes > usable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the memory limit of ", name, " is ", limit_bytes, " bytes; the ",
        facts.name, " has ", facts.total_bytes, ", of which ", usable,
        " can be used; lower the limit or give none"));
  }
  auto device = absl::WrapUnique(new SessionDevice());
  device->limit_bytes_ = limit_bytes == 0 ? usable : limit_bytes;
  device->description_ = facts.name;
  device->peak_rates_ = PeakRatesOf(facts);
  device->module_ = std::move(module);
  device->backend_ = &device->module_->backend();
  device->allocator_ = std::make_unique<CachingAllocator>(
      name, device->limit_bytes_, &device->module_->pages(),
      &device->module_->timeline());
  return device;
}

absl::Status SessionDevice::MakeCurrent() {
  return module_ == nullptr ? absl::OkStatus() : module_->MakeCurrent();
}

absl::StatusOr<DeviceBackend*> SessionDevice::ServingBackend() {
  if (module_ != nullptr) return module_->ServingBackend();
  return backend_;
}

const DeviceFacts* SessionDevice::facts() const {
  return module_ == nullptr ? nullptr : &module_->facts();
}

absl::StatusOr<DeviceReadings> SessionDevice::Read() {
  if (module_ != nullptr) return module_->Read();
  return absl::UnimplementedError("a CPU device has no readings");
}

}  // namespace gpupool::engine
