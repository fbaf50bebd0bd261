// Compares every op of the table on the portable kernels with the reference
// back end, with random shapes, attributes and layouts, in all floating types.
#include <gtest/gtest.h>

#include "engine/backends/portable/portable_backend.h"
#include "tests/engine/backends/portable/attention_cases.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {
namespace {

class PortableOp : public ::testing::TestWithParam<OpCaseMaker> {
 protected:
  portable::PortableBackend backend_;
  const BackendUnderTest on_{.backend = &backend_};
};

TEST_P(PortableOp, AgreesInFloat32) { ExpectAgreesInFloat32(GetParam(), on_); }

TEST_P(PortableOp, AgreesInTheOtherFloatingTypes) {
  ExpectAgreesInOtherTypes(GetParam(), on_);
}

TEST_P(PortableOp, NormalisesSixteenBitNumbersBesideFloat32) {
  ExpectNormalisesInSixteenBits(GetParam(), on_);
}

INSTANTIATE_TEST_SUITE_P(Portable, PortableOp,
                         ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

// Uses lse and y of the forward pass, and queries that see no key.
TEST(PortableAttentionTest, TheGradientAgreesInEveryForm) {
  portable::PortableBackend backend;
  for (const DType type :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const AttentionCase& at : AttentionCases(type)) {
      SCOPED_TRACE(at.Text());
      ExpectAttentionAgrees(at, backend, type == DType::kFloat32 ? 1e-5 : 3e-2);
    }
  }
}

}  // namespace
}  // namespace gpupool::engine::testing
