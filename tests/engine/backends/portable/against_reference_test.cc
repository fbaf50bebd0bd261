// Every op of the table on the portable kernels against the reference back
// end, with random shapes, attributes and layouts, in all floating types.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {
namespace {

constexpr uint32_t kSeeds = 8;
constexpr uint32_t kSeedsOfOtherTypes = 3;

std::vector<OpCaseMaker> AllOpCases() {
  std::vector<OpCaseMaker> cases;
  for (auto* list : {&ElementwiseOpCases, &CoreOpCases, &BasicOpCases,
                     &ImageOpCases, &TrainingOpCases}) {
    for (OpCaseMaker& maker : (*list)()) cases.push_back(std::move(maker));
  }
  return cases;
}

OpCase MakeCase(const OpCaseMaker& maker, uint32_t seed) {
  OpCase at(seed);
  maker.build(at);
  const bool images =
      Info(at.graph().nodes()[0].op).layout == LayoutRule::kSame;
  if (images && at.Coin()) at.UseChannelsLast();
  return at;
}

class PortableOp : public ::testing::TestWithParam<OpCaseMaker> {};

TEST_P(PortableOp, AgreesInFloat32) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ExpectAgreement(MakeCase(GetParam(), seed), GetParam().tolerance + 2e-7);
    if (HasFailure() || IsSkipped()) return;
  }
}

TEST_P(PortableOp, AgreesInTheOtherFloatingTypes) {
  for (const DType dtype :
       {DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    for (uint32_t seed = 0; seed < kSeedsOfOtherTypes; ++seed) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " seed ", seed));
      OpCase at = MakeCase(GetParam(), seed);
      if (!ChangeFloats(at, dtype)) continue;
      const double tolerance =
          dtype == DType::kFloat64
              ? std::min(GetParam().tolerance, 1e-9)
              : std::max(ToleranceOf(dtype), GetParam().tolerance);
      ExpectAgreement(at, tolerance);
      if (HasFailure() || IsSkipped()) return;
    }
  }
}

TEST_P(PortableOp, NormalisesSixteenBitNumbersBesideFloat32) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (uint32_t seed = 0; seed < kSeedsOfOtherTypes; ++seed) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " seed ", seed));
      OpCase at = MakeCase(GetParam(), seed);
      if (!ChangeNormalised(at, dtype)) return;
      ExpectAgreement(at, ToleranceOf(dtype));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Portable, PortableOp,
                         ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gpupool::engine::testing
