// The GPUs for which a device module has kernels.
//
// A compute capability is one whole number here: 90 is 9.0, 120 is 12.0.
// Machine code of X.y runs on X.z with z >= y. The driver translates PTX of X.y
// for X.y and every later one ("Binary Compatibility" and "PTX Compatibility"
// in the CUDA C++ programming guide).
//
// Thread-safety: pure functions on values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine {

// The oldest GPUs that CUDA 13 can build for.
inline constexpr int kOldestCapability = 75;

struct ModuleArchitectures {
  std::vector<int> machine_code;  // ascending
  std::vector<int> ptx;           // ascending; may be empty
};

// Parses "9.0" as 90, "12.1" as 121. Returns nothing for any other text.
std::optional<int> ParseCapability(absl::string_view text);

// Returns "7.5, 8.0, 9.0, and 8.0 as PTX".
std::string ToText(const ModuleArchitectures& architectures);

// Returns whether a GPU of that capability can run the kernels.
bool RunsOn(const ModuleArchitectures& architectures, int capability);

// Returns whether there is machine code for it, so the driver compiles nothing.
bool HasMachineCode(const ModuleArchitectures& architectures, int capability);

// Returns OK when the GPU can run the module's kernels.
//   FAILED_PRECONDITION  it cannot; names the GPU, its compute capability, the
//                        module's kernels and how to build one for this GPU
absl::Status CheckArchitecture(const ModuleArchitectures& architectures,
                               const DeviceFacts& facts);

}  // namespace gpupool::engine
