// Checks the guarantees of caching_allocator.h against an allocator's reports
// about itself. Must be called in a test. Ends the test's function on a
// failure.
#pragma once

#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/simulated_driver.h"

namespace gpupool::engine {

void CheckInvariants(const CachingAllocator& allocator,
                     const SimulatedDriver& driver);

}  // namespace gpupool::engine
