#include "tests/engine/backends/portable/compare.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/graph/print.h"
#include "engine/graph/verify.h"
#include "tests/engine/backends/portable/error_of.h"
#include "tests/engine/backends/portable/node_runner.h"

namespace gpupool::engine::testing {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

constexpr uint32_t kSeeds = 8;
constexpr uint32_t kSeedsOfOtherTypes = 3;

// Returns whether the remaining seeds can be skipped.
bool Decided() {
  return ::testing::Test::HasFailure() || ::testing::Test::IsSkipped();
}

void ExpectSame(const NamedNumbers& got, const NamedNumbers& wanted,
                double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, numbers] : wanted) {
    EXPECT_LE(ErrorOf(got.at(name), numbers), tolerance) << name;
  }
}

}  // namespace

void ExpectAgreement(const OpCase& made, double tolerance,
                     const BackendUnderTest& on) {
  OpCase at = made;
  SCOPED_TRACE(::testing::Message() << Print(at.graph()));
  ASSERT_TRUE(Verify(at.graph()).ok()) << Verify(at.graph());
  NamedNumbers wanted_state = at.persistents;
  NamedNumbers got_state = at.persistents;
  const auto wanted = reference::Run(at.graph(), at.inputs, wanted_state,
                                     {.round_to_dtype = true});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  const auto got =
      RunNodes(*on.backend, at.graph(), at.inputs, got_state, on.allocator);
  if (got.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << got.status().message();
  }
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectSame(*got, *wanted, tolerance);
  ExpectSame(got_state, wanted_state, tolerance);
}

void ExpectAgreesInFloat32(const OpCaseMaker& maker,
                           const BackendUnderTest& on) {
  for (uint32_t seed = 0; seed < kSeeds && !Decided(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ExpectAgreement(MakeOpCase(maker, seed),
                    maker.tolerance + on.float32_tolerance, on);
  }
}

void ExpectAgreesInOtherTypes(const OpCaseMaker& maker,
                              const BackendUnderTest& on) {
  for (const DType dtype :
       {DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    for (uint32_t seed = 0; seed < kSeedsOfOtherTypes && !Decided(); ++seed) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " seed ", seed));
      OpCase at = MakeOpCase(maker, seed);
      if (!ChangeFloats(at, dtype)) continue;
      const double tolerance =
          dtype == DType::kFloat64
              ? std::min(maker.tolerance, 1e-9)
              : std::max(on.rounding * ToleranceOf(dtype), maker.tolerance);
      ExpectAgreement(at, tolerance, on);
    }
  }
}

void ExpectNormalisesInSixteenBits(const OpCaseMaker& maker,
                                   const BackendUnderTest& on) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (uint32_t seed = 0; seed < kSeedsOfOtherTypes && !Decided(); ++seed) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " seed ", seed));
      OpCase at = MakeOpCase(maker, seed);
      if (!ChangeNormalised(at, dtype)) return;
      ExpectAgreement(at, on.rounding * ToleranceOf(dtype), on);
    }
  }
}

}  // namespace gpupool::engine::testing
