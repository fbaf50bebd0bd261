#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/backends/cpu/op_cases.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// A table of two leaves, of which one number is replaced.
class TreeWalkTest : public ::testing::Test {
 protected:
  ValueId List(const std::vector<double>& numbers) {
    const Shape shape{static_cast<int64_t>(numbers.size())};
    const ValueId id = at_.Integers(shape, DType::kInt32, 0, 0);
    at_.inputs[at_.graph().value(id).name] = numbers;
    return id;
  }
  std::string Error(double column, double link, double root) {
    const ValueId x = at_.Floats({3, 2});
    const ValueId thresholds = at_.Floats({2});
    const ValueId columns = List({0, column});
    const ValueId larger = List({0, link});
    at_.Emit(Op::kTreeWalk,
             {x, columns, thresholds, larger, List({0, 1}), List({root})},
             TreeWalkAttributes{1});
    reference::NamedNumbers none;
    const auto result = RunOnCpu(at_.graph(), at_.inputs, none, 1);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  }

  OpCase at_{0};
};

TEST_F(TreeWalkTest, AColumnOutsideIsRefused) {
  EXPECT_THAT(Error(2, 0, 0), HasSubstr("the column 2 of a tree is not in"));
}

TEST_F(TreeWalkTest, AColumnOutsideForMissingNumbersIsRefused) {
  EXPECT_THAT(Error(-3, 0, 0), HasSubstr("the column 2 of a tree is not in"));
}

TEST_F(TreeWalkTest, ASlotOutsideIsRefused) {
  EXPECT_THAT(Error(0, -1, 0), HasSubstr("the slot -1 of a tree is not in"));
}

TEST_F(TreeWalkTest, ARootOutsideIsRefused) {
  EXPECT_THAT(Error(0, 0, 2), HasSubstr("the root 2 of a tree is not in"));
}

}  // namespace
}  // namespace gpupool::engine
