// For which GPUs a CUDA module has code: read from its file, since asking the
// runtime takes a GPU.
//
// Thread-safety: any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

struct ModuleCode {
  // Compute capabilities without the dot, rising: 80, 90.
  std::vector<int> machine;   // whose machine code there is
  std::vector<int> portable;  // whose PTX there is, for the driver to compile

  // Machine code runs on its own major version from its minor version on; PTX
  // on everything from its version on, after a compilation.
  bool RunsOn(int capability) const;
  // Whether only PTX does.
  bool IsCompiledFor(int capability) const;
};

// Reads the file at `path`. Nothing at all for one without CUDA code.
//   NOT_FOUND  it cannot be read
//   DATA_LOSS  it is no 64-bit ELF file, or is cut
absl::StatusOr<ModuleCode> ReadModuleCode(const std::string& path);

// What a section .nv_fatbin holds. Stops at what it does not understand.
ModuleCode ParseFatBinary(absl::string_view section);

}  // namespace gpupool::engine::cuda
