// Kernels that do what no kernel should.
#pragma once

namespace gpupool::engine::testing {

// Each queues its kernel on the current device and returns the runtime's code
// of the launch.
int LaunchIllegalAddress();
int LaunchAssert();
// Never ends.
int LaunchEndless();

}  // namespace gpupool::engine::testing
