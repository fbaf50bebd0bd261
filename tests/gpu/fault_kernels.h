// Kernels with faults on purpose.
#pragma once

namespace gpupool::engine::testing {

// These queue a kernel on the current device and return the runtime's code of
// the launch.
int LaunchIllegalAddress();
int LaunchAssert();
// Never ends.
int LaunchEndless();

}  // namespace gpupool::engine::testing
