#include "server/metrics/triton_gpu_series.h"

#include <optional>

namespace gpupool::server {
namespace {

constexpr GpuGauge kTritonGpuGauges[] = {
    {"nv_gpu_utilization",
     "Share of the time with a kernel on the GPU, 0 to 1.",
     GPUPOOL_GPU_READING(utilization, 1)},
    {"nv_gpu_memory_total_bytes", "Bytes of the GPU's memory.",
     [](const v1::Device& d) {
       const uint64_t bytes = d.gpu().total_bytes();
       return bytes > 0 ? std::optional<double>(static_cast<double>(bytes))
                        : std::nullopt;
     }},
    {"nv_gpu_memory_used_bytes",
     "Bytes of the GPU's memory that all processes use.",
     GPUPOOL_GPU_READING(used_bytes, 1)},
    {"nv_gpu_power_usage", "Power that the GPU draws, in watts.",
     GPUPOOL_GPU_READING(power_watts, 1)},
    {"nv_gpu_power_limit", "Power limit of the GPU, in watts.",
     GPUPOOL_GPU_READING(power_limit_watts, 1)},
};
constexpr char kEnergy[] = "nv_energy_consumption";
constexpr char kEnergyHelp[] =
    "Joules that the GPU used since the server started, from its power.";

prometheus::Labels LabelsOf(const std::string& uuid) {
  return {{"gpu_uuid", uuid}};
}

}  // namespace

void TritonGpuSeries::Register() {
  if (energy_ != nullptr) return;
  gauges_ = RegisterGauges(kTritonGpuGauges, *registry_);
  energy_ = &prometheus::BuildCounter()
                 .Name(kEnergy)
                 .Help(kEnergyHelp)
                 .Register(*registry_);
}

void TritonGpuSeries::SetEnergy(const v1::Device& device) {
  if (!device.readings().has_energy_joules()) return;
  prometheus::Counter& joules = energy_->Add(LabelsOf(device.gpu().uuid()));
  const double more = device.readings().energy_joules() - joules.Value();
  if (more > 0) joules.Increment(more);
}

void TritonGpuSeries::Remove(const std::string& uuid) {
  const prometheus::Labels labels = LabelsOf(uuid);
  for (GaugeFamily* family : gauges_) {
    SetReading(*family, labels, std::nullopt);
  }
  if (energy_->Has(labels)) energy_->Remove(&energy_->Add(labels));
}

void TritonGpuSeries::Set(const v1::Device& device) {
  absl::MutexLock lock(&mutex_);
  Register();
  const std::string& uuid = device.gpu().uuid();
  const auto [known, is_new] = uuids_.emplace(device.name(), uuid);
  if (!is_new && known->second != uuid) {  // another GPU has taken its place
    Remove(known->second);
    known->second = uuid;
  }
  for (size_t i = 0; i < gauges_.size(); ++i) {
    SetReading(*gauges_[i], LabelsOf(uuid), kTritonGpuGauges[i].value(device));
  }
  SetEnergy(device);
}

void TritonGpuSeries::Clear(const std::string& device) {
  absl::MutexLock lock(&mutex_);
  const auto known = uuids_.find(device);
  if (known == uuids_.end()) return;
  Remove(known->second);
  uuids_.erase(known);
}

}  // namespace gpupool::server
