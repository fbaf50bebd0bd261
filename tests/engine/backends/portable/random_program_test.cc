// Compares graphs of all op families, after all passes, on the portable kernels
// with the reference back end without passes.
#include <gtest/gtest.h>

#include "engine/backends/portable/portable_backend.h"
#include "tests/engine/backends/portable/compare_program.h"

namespace gpupool::engine::testing {
namespace {

class PortableProgram : public ::testing::TestWithParam<int> {
 protected:
  void ExpectAgrees(bool training) {
    ExpectRandomProgramAgrees(static_cast<uint64_t>(GetParam()), training,
                              {.backend = &backend_});
  }

  portable::PortableBackend backend_;
};

TEST_P(PortableProgram, InferenceAgrees) { ExpectAgrees(false); }
TEST_P(PortableProgram, TrainingAgrees) { ExpectAgrees(true); }

INSTANTIATE_TEST_SUITE_P(Seeds, PortableProgram, ::testing::Range(0, 20));

}  // namespace
}  // namespace gpupool::engine::testing
