// Compares graphs on a back end with the reference: one op each, and whole
// programs.
#pragma once

#include "engine/graph/graph.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine::testing {

// A back end, and its tolerance.
struct BackendUnderTest {
  DeviceBackend* backend = nullptr;
  CachingAllocator* allocator = nullptr;  // null: the host's memory
  // Added to the tolerance of a case, in float32.
  double float32_tolerance = 2e-7;
  // Factor of the rounding error of 16-bit types.
  double rounding = 1;
};

// Runs the case on the back end and on the reference, and expects the same
// numbers. Skips, with the reason, if there is no kernel for the op.
void ExpectAgreement(const OpCase& at, double tolerance,
                     const BackendUnderTest& on);
// Does the same on the portable back end.
void ExpectAgreement(const OpCase& at, double tolerance);

// These run the case with some seeds, in either layout: in float32, in the
// other floating types, and with 16 bits only for the images of a
// normalisation.
void ExpectAgreesInFloat32(const OpCaseMaker& maker,
                           const BackendUnderTest& on);
void ExpectAgreesInOtherTypes(const OpCaseMaker& maker,
                              const BackendUnderTest& on);
void ExpectNormalisesInSixteenBits(const OpCaseMaker& maker,
                                   const BackendUnderTest& on);

}  // namespace gpupool::engine::testing
