#include "server/metrics/gpu_series.h"

#include <optional>

namespace gpupool::server {
namespace {

constexpr double kPercent = 100;
constexpr double kMiB = 1 << 20;

// Names and help texts of dcgm-exporter's default counters.
constexpr GpuGauge kGpuGauges[] = {
    {"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).",
     GPUPOOL_GPU_READING(utilization, kPercent)},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).",
     GPUPOOL_GPU_READING(memory_utilization, kPercent)},
    {"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
     GPUPOOL_GPU_READING(used_bytes, 1 / kMiB)},
    {"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).",
     [](const v1::Device& d) {
       const uint64_t used = d.readings().used_bytes();
       const uint64_t total = d.gpu().total_bytes();
       return d.readings().has_used_bytes() && used <= total
                  ? std::optional<double>(static_cast<double>(total - used) /
                                          kMiB)
                  : std::nullopt;
     }},
    {"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).",
     GPUPOOL_GPU_READING(temperature_celsius, 1)},
    {"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).",
     GPUPOOL_GPU_READING(power_watts, 1)},
    {"DCGM_FI_DEV_POWER_MGMT_LIMIT", "Power limit (in W).",
     GPUPOOL_GPU_READING(power_limit_watts, 1)},
    {"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).",
     GPUPOOL_GPU_READING(multiprocessor_clock_mhz, 1)},
    {"DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).",
     GPUPOOL_GPU_READING(memory_clock_mhz, 1)},
    {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
     "Total number of single-bit volatile ECC errors.",
     GPUPOOL_GPU_READING(ecc_corrected, 1)},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
     "Total number of double-bit volatile ECC errors.",
     GPUPOOL_GPU_READING(ecc_uncorrected, 1)},
    {"DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.",
     [](const v1::Device& d) {
       const auto& events = d.readings().xid_events();
       return std::optional<double>(events.empty() ? 0.0
                                                   : events.rbegin()->code());
     }},
};

}  // namespace

void GpuSeries::Set(const v1::Device& device) {
  absl::MutexLock lock(&mutex_);
  if (families_.empty()) {
    families_ = RegisterGauges(kGpuGauges, *registry_);
  }
  const std::string& name = device.name();
  const prometheus::Labels labels = {{"gpu", name.substr(name.find(':') + 1)},
                                     {"device", name},
                                     {"UUID", device.gpu().uuid()},
                                     {"pci_bus_id", device.gpu().pci_bus_id()},
                                     {"modelName", device.description()}};
  prometheus::Labels& known = labels_[name];
  if (!known.empty() && known != labels) {  // another GPU has taken its place
    for (GaugeFamily* family : families_)
      SetReading(*family, known, std::nullopt);
  }
  known = labels;
  for (size_t i = 0; i < families_.size(); ++i) {
    SetReading(*families_[i], labels, kGpuGauges[i].value(device));
  }
}

void GpuSeries::Clear(const std::string& device) {
  absl::MutexLock lock(&mutex_);
  const auto known = labels_.find(device);
  if (known == labels_.end()) return;
  for (GaugeFamily* family : families_)
    SetReading(*family, known->second, std::nullopt);
  labels_.erase(known);
}

}  // namespace gpupool::server
