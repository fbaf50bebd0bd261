// Compares whole programs on a back end with the reference.
#pragma once

#include <cstdint>

#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {

// Runs the random graph of that seed after all passes on the back end, and
// without passes on the reference. Expects the same outputs and the same state.
// Skips, with the reason, if an op has no kernel.
void ExpectRandomProgramAgrees(uint64_t seed, bool training,
                               const BackendUnderTest& on);

}  // namespace gpupool::engine::testing
