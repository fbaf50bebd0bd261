// Reads the version of the driver that the kernel has loaded. Needs no NVML.
//
// Thread-safety: any thread.
#pragma once

#include <string>

namespace gpupool::engine::cuda {

// Returns the first word of `file`, as "580.65.06". Returns an empty text when
// there is no such file, as in WSL.
std::string LoadedDriverVersion(
    const std::string& file = "/sys/module/nvidia/version");

}  // namespace gpupool::engine::cuda
