#include "engine/backends/portable/portable_backend.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {

void ExpectAgreement(const OpCase& at, double tolerance) {
  portable::PortableBackend backend;
  ExpectAgreement(at, tolerance, {.backend = &backend});
}

}  // namespace gpupool::engine::testing
