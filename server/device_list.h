// The words of --devices, before anybody has looked at the machine.
//
//   LIST = "auto" | ITEM { "," ITEM }
//   ITEM = "cuda"         all GPUs
//        | "cuda:" INDEX  the GPU with this index, from 0
//        | INDEX          one more GPU, after an item with an index
//        | "cpu:" COUNT   this many virtual CPU devices, named from cpu:0 on
//
// A number behind "cuda:" is an index and a number behind "cpu:" is a count.
// Spaces around an item mean nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

inline constexpr uint32_t kMaxCpuDevices = 64;

struct DeviceList {
  bool automatic = false;  // the machine decides; the other fields are empty
  bool all_gpus = false;   // no index is named then
  std::vector<uint32_t> gpus;  // indices in the order of the words
  uint32_t cpu_devices = 0;
};

// Returns what the words say. InvalidArgument says what to write instead.
absl::StatusOr<DeviceList> ParseDeviceList(absl::string_view words);

// Returns whether the words may stand for a GPU; false for words that mean
// nothing.
bool MayMeanGpus(absl::string_view words);

}  // namespace gpupool::server
