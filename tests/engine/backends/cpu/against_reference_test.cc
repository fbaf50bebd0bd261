// Compares every op of the table on the CPU back end with the reference back
// end, with random shapes, attributes, layouts and threads.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/backends/all_reduce.h"
#include "engine/graph/print.h"
#include "engine/graph/verify.h"
#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

constexpr uint32_t kSeeds = 16;
constexpr uint32_t kSeedsOfHalves = 4;

// Returns the largest difference, relative to 1 + the largest expected number.
double Error(const reference::Numbers& got, const reference::Numbers& wanted) {
  if (got.size() != wanted.size()) return HUGE_VAL;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    if (!(std::abs(got[i] - wanted[i]) <= difference)) {
      difference = std::abs(got[i] - wanted[i]);
    }
  }
  return difference / (1 + largest);
}

// The reference also rounds numbers of 16-bit types.
constexpr reference::RunOptions kRounded{.round_to_dtype = true};

void ExpectSame(const reference::NamedNumbers& got,
                const reference::NamedNumbers& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, numbers] : wanted) {
    EXPECT_LE(Error(got.at(name), numbers), tolerance) << name;
  }
}

class AgainstReference : public ::testing::TestWithParam<OpCaseMaker> {};

TEST_P(AgainstReference, GivesTheSameNumbers) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    OpCase at = MakeOpCase(GetParam(), seed);
    const int threads = static_cast<int>(at.Pick(1, 2));
    SCOPED_TRACE(::testing::Message() << "seed " << seed << "\n"
                                      << Print(at.graph()));
    ASSERT_TRUE(Verify(at.graph()).ok()) << Verify(at.graph());
    reference::NamedNumbers wanted_state = at.persistents;
    reference::NamedNumbers got_state = at.persistents;
    const auto wanted = reference::Run(at.graph(), at.inputs, wanted_state);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    const auto got = RunOnCpu(at.graph(), at.inputs, got_state, threads);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectSame(*got, *wanted, GetParam().tolerance);
    ExpectSame(got_state, wanted_state, GetParam().tolerance);
    if (HasFailure()) return;
  }
}

TEST_P(AgainstReference, GivesTheSameNumbersInSixteenBits) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const auto change : {ChangeFloats, ChangeNormalised}) {
      for (uint32_t seed = 0; seed < kSeedsOfHalves; ++seed) {
        OpCase at = MakeOpCase(GetParam(), seed);
        if (!change(at, dtype)) continue;
        SCOPED_TRACE(::testing::Message() << "seed " << seed << "\n"
                                          << Print(at.graph()));
        reference::NamedNumbers wanted_state = at.persistents;
        reference::NamedNumbers got_state = at.persistents;
        const auto wanted =
            reference::Run(at.graph(), at.inputs, wanted_state, kRounded);
        ASSERT_TRUE(wanted.ok()) << wanted.status();
        const auto got = RunOnCpu(at.graph(), at.inputs, got_state, 2);
        ASSERT_TRUE(got.ok()) << got.status();
        const double tolerance =
            std::max(ToleranceOf(dtype), GetParam().tolerance);
        ExpectSame(*got, *wanted, tolerance);
        ExpectSame(got_state, wanted_state, tolerance);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(AgainstReference, GivesTheSameBitsEveryTime) {
  OpCase at(1);
  GetParam().build(at);
  reference::NamedNumbers first_state = at.persistents;
  const auto first = RunOnCpu(at.graph(), at.inputs, first_state, 2);
  ASSERT_TRUE(first.ok()) << first.status();
  for (int i = 0; i < 3; ++i) {
    reference::NamedNumbers state = at.persistents;
    const auto again = RunOnCpu(at.graph(), at.inputs, state, 2);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *first);
    EXPECT_EQ(state, first_state);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, AgainstReference,
                         ::testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

TEST(OpCases, CoverEveryOpOfTheTable) {
  std::set<Op> covered;
  for (const OpCaseMaker& maker : AllOpCases()) {
    OpCase at(0);
    maker.build(at);
    for (const Node& node : at.graph().nodes()) covered.insert(node.op);
  }
  for (int op = 0; op < kOpCount; ++op) {
    // These need other ranks: tests/engine/backends/all_reduce_test.cc.
    if (IsAllReduce(static_cast<Op>(op))) continue;
    EXPECT_TRUE(covered.contains(static_cast<Op>(op)))
        << OpName(static_cast<Op>(op));
  }
}

}  // namespace
}  // namespace gpupool::engine
