// A random graph of one op on a back end against the reference.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/graph/graph.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine::testing {

// The largest difference of an element, relative to 1 + the largest finite
// expected number; 0 where both are NaN or the same infinity.
double ErrorOf(const reference::Numbers& got, const reference::Numbers& wanted);

// Runs the case on the back end, whose memory is `allocator`'s or, where that
// is null, the host's, and on the reference, and expects the same numbers.
// Skips, with the reason, where there is no kernel for the op.
void ExpectAgreement(const OpCase& at, double tolerance, DeviceBackend& backend,
                     CachingAllocator* allocator = nullptr);
// On the portable back end.
void ExpectAgreement(const OpCase& at, double tolerance);

}  // namespace gpupool::engine::testing
