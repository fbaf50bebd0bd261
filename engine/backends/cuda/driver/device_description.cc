#include "engine/backends/cuda/driver/device_description.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace gpupool::engine::cuda {
namespace {

std::string Quoted(const char* text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::string Triple(const int (&numbers)[3]) {
  return absl::StrCat("[", numbers[0], ",", numbers[1], ",", numbers[2], "]");
}

// Writes a JSON object member by member.
class Object {
 public:
  void Add(const char* name, int64_t value) {
    AddText(name, absl::StrCat(value));
  }
  void AddText(const char* name, const std::string& value) {
    absl::StrAppend(&text_, text_.empty() ? "{" : ",", "\"", name,
                    "\":", value);
  }
  std::string Finish() const { return absl::StrCat(text_, "}"); }

 private:
  std::string text_;
};

}  // namespace

std::string CudnnDescription(const cudaDeviceProp& properties,
                             const DeviceClocks& clocks) {
  const cudaDeviceProp& p = properties;
  Object object;
  object.AddText("deviceName", Quoted(p.name));
  // Any index works, since the device is only described.
  object.Add("cudaDeviceId", 0);
  object.Add("deviceVer", 100 * p.major + 10 * p.minor);
  object.Add("driverVer", clocks.driver_version);
  object.Add("totalGlobalMem", static_cast<int64_t>(p.totalGlobalMem));
  object.Add("multiProcessorCount", p.multiProcessorCount);
  object.Add("smClockRateKHz", clocks.multiprocessor_khz);
  object.Add("memClockRateKHz", clocks.memory_khz);
  object.Add("l2CacheSize", p.l2CacheSize);
  object.AddText("maxGridSize", Triple(p.maxGridSize));
  object.AddText("maxBlockSize", Triple(p.maxThreadsDim));
  object.Add("warpSize", p.warpSize);
  object.Add("regsPerBlock", p.regsPerBlock);
  object.Add("maxRegistersPerSM", p.regsPerMultiprocessor);
  object.Add("maxSharedMemoryPerBlock",
             static_cast<int64_t>(p.sharedMemPerBlock));
  object.Add("maxSharedMemoryPerBlockOptin",
             static_cast<int64_t>(p.sharedMemPerBlockOptin));
  object.Add("reservedSharedMemoryPerBlock",
             static_cast<int64_t>(p.reservedSharedMemPerBlock));
  object.Add("maxCtasPerSM", p.maxBlocksPerMultiProcessor);
  object.Add("maxThreadsPerBlock", p.maxThreadsPerBlock);
  object.Add("maxThreadsPerSM", p.maxThreadsPerMultiProcessor);
  object.Add("pciDeviceId", p.pciDeviceID);
  object.Add("isTccDriver", p.tccDriver);
  object.Add("supportCoopLaunch", p.cooperativeLaunch);
  return object.Finish();
}

}  // namespace gpupool::engine::cuda
