// Checks what caching_allocator.h promises against what an allocator says of
// itself. Call inside a test; ends the test's function on a failure.
#pragma once

#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/simulated_driver.h"

namespace gpupool::engine {

void CheckInvariants(const CachingAllocator& allocator,
                     const SimulatedDriver& driver);

}  // namespace gpupool::engine
