// The version of the driver that the kernel has loaded, without NVML.
//
// Thread-safety: any thread.
#pragma once

#include <string>

namespace gpupool::engine::cuda {

// The first word of `file`, as "580.65.06"; empty where there is none, as in
// WSL.
std::string LoadedDriverVersion(
    const std::string& file = "/sys/module/nvidia/version");

}  // namespace gpupool::engine::cuda
