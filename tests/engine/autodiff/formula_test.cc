#include "engine/autodiff/formula.h"

#include <gtest/gtest.h>

#include "engine/graph/builder.h"
#include "engine/graph/graph.h"

namespace gpupool::engine::autodiff {
namespace {

TEST(FormulaTest, AShapeToReduceToMayBeThatOfAValueOfTheGraph) {
  Graph graph;
  GraphBuilder builder(&graph);
  const auto small =
      builder.Input("small", {DType::kFloat32, *Shape::Create({2, 1})});
  const auto big =
      builder.Input("big", {DType::kFloat32, *Shape::Create({4, 2, 3})});
  ASSERT_TRUE(small.ok() && big.ok());
  Formula formula(&builder);
  // Enough nodes for the graph to move its values several times.
  for (int i = 0; i < 100; ++i) {
    const ValueId sum = formula.ReduceTo(*big, builder.shape(*small));
    ASSERT_TRUE(formula.status().ok()) << formula.status();
    EXPECT_EQ(builder.shape(sum), *Shape::Create({2, 1}));
  }
}

}  // namespace
}  // namespace gpupool::engine::autodiff
