// Whole programs on a back end against the reference.
#pragma once

#include <cstdint>

#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {

// The random graph of that seed, after all passes, on the back end; without
// them on the reference: the same outputs and the same state. Skips, with the
// reason, where an op has no kernel.
void ExpectRandomProgramAgrees(uint64_t seed, bool training,
                               const BackendUnderTest& on);

}  // namespace gpupool::engine::testing
