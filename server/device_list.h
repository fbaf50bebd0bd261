// Parses --devices, before the machine is looked at.
//
//   LIST = "auto" | ITEM { "," ITEM }
//   ITEM = "cuda"         all GPUs
//        | "cuda:" INDEX  the GPU with this index, from 0
//        | INDEX          one more GPU, after an item with an index
//        | "cpu:" COUNT   this many virtual CPU devices, named from cpu:0 on
//
// A number after "cuda:" is an index, a number after "cpu:" is a count. Spaces
// around an item are ignored.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

inline constexpr uint32_t kMaxCpuDevices = 64;

struct DeviceList {
  bool automatic = false;      // the machine decides; other fields are empty
  bool all_gpus = false;       // no index is named then
  std::vector<uint32_t> gpus;  // indices in the given order
  uint32_t cpu_devices = 0;
};

// Returns the parsed list. InvalidArgument tells what to write instead.
absl::StatusOr<DeviceList> ParseDeviceList(absl::string_view words);

// Returns whether the list may name a GPU; false for a list that does not
// parse.
bool MayMeanGpus(absl::string_view words);

}  // namespace gpupool::server
