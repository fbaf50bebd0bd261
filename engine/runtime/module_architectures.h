// The GPUs that a device module has kernels for.
//
// A compute capability is one whole number here: 90 is 9.0, 120 is 12.0.
// Machine code of X.y runs on X.z with z >= y. PTX of X.y is translated by the
// driver for X.y and every later one ("Binary Compatibility" and "PTX
// Compatibility" in the CUDA C++ programming guide).
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

// A module for GPUs before this cannot be built with CUDA 13.
inline constexpr int kOldestCapability = 75;

struct ModuleArchitectures {
  std::vector<int> machine_code;  // ascending
  std::vector<int> ptx;           // ascending; may be empty
};

// "9.0" as 90, "12.1" as 121; nullopt for any other text.
std::optional<int> ParseCapability(absl::string_view text);

// "7.5, 8.0, 9.0, and 8.0 as PTX".
std::string ToText(const ModuleArchitectures& architectures);

// Whether a GPU of that capability can run the kernels.
bool RunsOn(const ModuleArchitectures& architectures, int capability);

// Whether there is machine code for it, so that the driver compiles nothing.
bool HasMachineCode(const ModuleArchitectures& architectures, int capability);

// OK when the GPU can run the module's kernels.
//   FAILED_PRECONDITION  it cannot; names the GPU, its compute capability, what
//                        the module has and how to build one for this GPU
absl::Status CheckArchitecture(const ModuleArchitectures& architectures,
                               const DeviceFacts& facts);

}  // namespace gpupool::engine
