#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "engine/backends/cpu/flush_denormals.h"
#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// x0 <= 0.5 ? 1 : x1 < 0 ? 2 : 4, plus 0.5. NaN is not <= 0.5.
TEST(LowerTreesTest, RowsReachTheirLeaf) {
  const auto y = RunDomain(
      "(float[5, 2] x) => (float[5, 1] y) { y = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
      "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0], "
      "base_values = [0.5]>(x) } ",
      {{"x", Floats({5, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0, kNan, 1})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {5, 1}, {1.5, 1.5, 2.5, 4.5, 4.5});
}

TEST(LowerTreesTest, MissingNumbersMayTakeTheOtherBranch) {
  const auto y = RunDomain(
      "(float[5, 2] x) => (float[5, 1] y) { y = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], nodes_missing_value_tracks_true = [1, 0, 0, 0, 0], "
      "target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], target_treeids "
      "= [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) } ",
      {{"x", Floats({5, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0, kNan, 1})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {5, 1}, {1, 1, 2, 4, 1});
}

// Rows 0, 0.5, 0.75 and NaN against 0.5. Only NEQ holds for NaN.
TEST(LowerTreesTest, EveryModeComparesAsItsName) {
  const auto y = RunDomain(
      "(float[4, 1] x) => (float[4, 1] y0, float[4, 1] y1, float[4, 1] "
      "y2, float[4, 1] y3, float[4, 1] y4, float[4, 1] y5) { y0 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) y1 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_LT\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) y2 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_GTE\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) y3 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_GT\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) y4 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_EQ\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) y5 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_NEQ\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x)  } ",
      {{"x", Floats({4, 1}, {0, 0.5, 0.75, kNan})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4, 1}, {1, 1, 0, 0});
  ExpectNumbers((*y)[1], {4, 1}, {1, 0, 0, 0});
  ExpectNumbers((*y)[2], {4, 1}, {0, 1, 1, 0});
  ExpectNumbers((*y)[3], {4, 1}, {0, 0, 1, 0});
  ExpectNumbers((*y)[4], {4, 1}, {0, 1, 0, 0});
  ExpectNumbers((*y)[5], {4, 1}, {1, 0, 1, 1});
}

TEST(LowerTreesTest, ThresholdsOfZeroAreExact) {
  const auto y = RunDomain(
      "(float[3, 1] x) => (float[3, 1] z0, float[3, 1] z1, float[3, 1] "
      "z2, float[3, 1] z3, float[3, 1] z4, float[3, 1] z5) { z0 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) z1 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_LT\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) z2 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_GTE\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) z3 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_GT\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) z4 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_EQ\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x) z5 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
      "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_modes = [\"BRANCH_NEQ\", \"LEAF\", \"LEAF\"], nodes_values = "
      "[0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids "
      "= [2, 0, 0], target_ids = [0, 0], target_nodeids = [1, 2], "
      "target_treeids = [0, 0], target_weights = [1.0, 0.0]>(x)  } ",
      {{"x", Floats({3, 1}, {-1e-30, 0, 1e-30})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {3, 1}, {1, 1, 0});
  ExpectNumbers((*y)[1], {3, 1}, {1, 0, 0});
  ExpectNumbers((*y)[2], {3, 1}, {0, 1, 1});
  ExpectNumbers((*y)[3], {3, 1}, {0, 0, 1});
  ExpectNumbers((*y)[4], {3, 1}, {0, 1, 0});
  ExpectNumbers((*y)[5], {3, 1}, {1, 0, 1});
}

// A thread that takes denormal numbers for 0 makes the same table.
TEST(LowerTreesTest, ThresholdsOfZeroAreExactWhereDenormalsAreFlushed) {
  std::thread([] {
    FlushDenormals();
    const auto y = RunDomain(
        "(float[2, 1] x) => (float[2, 1] y) { y = "
        "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0], "
        "nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
        "nodes_modes = [\"BRANCH_LT\", \"LEAF\", \"LEAF\"], "
        "nodes_values = [0.0, 0.0, 0.0], nodes_truenodeids = [1, 0, 0], "
        "nodes_falsenodeids = [2, 0, 0], target_ids = [0, 0], "
        "target_nodeids = [1, 2], target_treeids = [0, 0], "
        "target_weights = [1.0, 2.0]>(x) }",
        {{"x", Floats({2, 1}, {0, -1})}});
    ASSERT_TRUE(y.ok()) << y.status();
    ExpectNumbers((*y)[0], {2, 1}, {2, 1});
  }).join();
}

TEST(LowerTreesTest, TreesAreSummedOrAveraged) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (float[4, 1] y0, float[4, 1] y1, float[4, 1] "
      "y2, float[4, 1] y3) { y0 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0, "
      "1, 1, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "
      "nodes_featureids = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], nodes_modes = "
      "[\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\", "
      "\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\"], "
      "nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0, 1, 0, 3, 0, 0], "
      "nodes_falsenodeids = [2, 0, 4, 0, 0, 2, 0, 4, 0, 0], target_ids = "
      "[0, 0, 0, 0, 0, 0], target_nodeids = [1, 3, 4, 1, 3, 4], "
      "target_treeids = [0, 0, 0, 1, 1, 1], target_weights = [1.0, 2.0, "
      "4.0, 10.0, -20.0, 40.0], aggregate_function = \"SUM\">(x) y1 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0, "
      "1, 1, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "
      "nodes_featureids = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], nodes_modes = "
      "[\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\", "
      "\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\"], "
      "nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0, 1, 0, 3, 0, 0], "
      "nodes_falsenodeids = [2, 0, 4, 0, 0, 2, 0, 4, 0, 0], target_ids = "
      "[0, 0, 0, 0, 0, 0], target_nodeids = [1, 3, 4, 1, 3, 4], "
      "target_treeids = [0, 0, 0, 1, 1, 1], target_weights = [1.0, 2.0, "
      "4.0, 10.0, -20.0, 40.0], aggregate_function = \"AVERAGE\">(x) y2 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0, "
      "1, 1, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "
      "nodes_featureids = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], nodes_modes = "
      "[\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\", "
      "\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\"], "
      "nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0, 1, 0, 3, 0, 0], "
      "nodes_falsenodeids = [2, 0, 4, 0, 0, 2, 0, 4, 0, 0], target_ids = "
      "[0, 0, 0, 0, 0, 0], target_nodeids = [1, 3, 4, 1, 3, 4], "
      "target_treeids = [0, 0, 0, 1, 1, 1], target_weights = [1.0, 2.0, "
      "4.0, 10.0, -20.0, 40.0], aggregate_function = \"MIN\">(x) y3 = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0, "
      "1, 1, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "
      "nodes_featureids = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], nodes_modes = "
      "[\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\", "
      "\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\"], "
      "nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0, 1, 0, 3, 0, 0], "
      "nodes_falsenodeids = [2, 0, 4, 0, 0, 2, 0, 4, 0, 0], target_ids = "
      "[0, 0, 0, 0, 0, 0], target_nodeids = [1, 3, 4, 1, 3, 4], "
      "target_treeids = [0, 0, 0, 1, 1, 1], target_weights = [1.0, 2.0, "
      "4.0, 10.0, -20.0, 40.0], aggregate_function = \"MAX\">(x)  } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4, 1}, {11, 11, -18, 44});
  ExpectNumbers((*y)[1], {4, 1}, {5.5, 5.5, -9, 22});
  ExpectNumbers((*y)[2], {4, 1}, {1, 1, -20, 4});
  ExpectNumbers((*y)[3], {4, 1}, {10, 10, 2, 40});
}

TEST(LowerTreesTest, ATreeMayHaveATargetOfItsOwn) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (float[4, 2] y, float[4, 2] z) { y = "
      "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0, "
      "1, 1, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4], "
      "nodes_featureids = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], nodes_modes = "
      "[\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\", "
      "\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", \"LEAF\"], "
      "nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0, 1, 0, 3, 0, 0], "
      "nodes_falsenodeids = [2, 0, 4, 0, 0, 2, 0, 4, 0, 0], target_ids = "
      "[0, 0, 0, 1, 1, 1], target_nodeids = [1, 3, 4, 1, 3, 4], "
      "target_treeids = [0, 0, 0, 1, 1, 1], target_weights = [1.0, 2.0, "
      "4.0, 10.0, -20.0, 40.0], n_targets = 2, base_values = [0.5, "
      "0.25]>(x) z = ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, "
      "0, 0, 0, 0, 1, 1, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, "
      "2, 3, 4], nodes_featureids = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], "
      "nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", "
      "\"LEAF\", \"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", \"LEAF\", "
      "\"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, "
      "0.0, 0.0], nodes_truenodeids = [1, 0, 3, 0, 0, 1, 0, 3, 0, 0], "
      "nodes_falsenodeids = [2, 0, 4, 0, 0, 2, 0, 4, 0, 0], target_ids = "
      "[0, 0, 0, 1, 1, 1], target_nodeids = [1, 3, 4, 1, 3, 4], "
      "target_treeids = [0, 0, 0, 1, 1, 1], target_weights = [1.0, 2.0, "
      "4.0, 10.0, -20.0, 40.0], n_targets = 2, aggregate_function = "
      "\"MIN\">(x) } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4, 2},
                {1.5, 10.25, 1.5, 10.25, 2.5, -19.75, 4.5, 40.25});
  ExpectNumbers((*y)[1], {4, 2}, {1, 10, 1, 10, 2, -20, 4, 40});
}

TEST(LowerTreesTest, TheLargestSumIsTheClass) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (int64[4] l, float[4, 3] s) { l, s = "
      "ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], class_ids = [0, 1, 2, 0, 2, 1], class_nodeids = [1, 1, "
      "1, 3, 3, 4], class_treeids = [0, 0, 0, 0, 0, 0], class_weights = "
      "[0.5, 0.25, 0.25, 0.9, 0.1, 1.0], classlabels_int64s = [7, 8, "
      "9]>(x) } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4}, {7, 7, 7, 8});
  ExpectNumbers((*y)[1], {4, 3},
                {0.5, 0.25, 0.25, 0.5, 0.25, 0.25, 0.9, 0, 0.1, 0, 1, 0});
}

TEST(LowerTreesTest, WeightsOfOneOfTwoClassesAreProbabilities) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (int64[4] l, float[4, 2] s) { l, s = "
      "ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], class_ids = [0, 0, 0], class_nodeids = [1, 3, 4], "
      "class_treeids = [0, 0, 0], class_weights = [0.25, 0.5, 0.75], "
      "classlabels_int64s = [7, 8]>(x) } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4}, {7, 7, 7, 8});
  ExpectNumbers((*y)[1], {4, 2},
                {0.75, 0.25, 0.75, 0.25, 0.5, 0.5, 0.25, 0.75});
}

TEST(LowerTreesTest, WeightsBelowZeroAreDecidedAtZero) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (int64[4] l, float[4, 2] s) { l, s = "
      "ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], class_ids = [0, 0, 0], class_nodeids = [1, 3, 4], "
      "class_treeids = [0, 0, 0], class_weights = [-1.0, 0.5, 2.0], "
      "classlabels_int64s = [7, 8], post_transform = \"LOGISTIC\", "
      "base_values = [0.25]>(x) } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4}, {7, 7, 8, 8});
  ExpectNumbers((*y)[1], {4, 2},
                {0.6791787, 0.3208213, 0.6791787, 0.3208213, 0.3208213,
                 0.6791787, 0.09534947, 0.9046505});
}

TEST(LowerTreesTest, TheFirstClassMayHaveNoWeights) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (int64[4] l, float[4, 2] s) { l, s = "
      "ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], class_ids = [1, 1, 1], class_nodeids = [1, 3, 4], "
      "class_treeids = [0, 0, 0], class_weights = [0.25, 0.5, 0.75], "
      "classlabels_int64s = [7, 8]>(x) } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4}, {7, 7, 7, 8});
  ExpectNumbers((*y)[1], {4, 2}, {0, 0.25, 0, 0.25, 0, 0.5, 0, 0.75});
}

TEST(LowerTreesTest, BothClassesMayHaveWeights) {
  const auto y = RunDomain(
      "(float[4, 2] x) => (int64[4] l, float[4, 2] s) { l, s = "
      "ai.onnx.ml.TreeEnsembleClassifier<nodes_treeids = [0, 0, 0, 0, 0], "
      "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
      "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
      "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
      "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
      "4, 0, 0], class_ids = [0, 1, 0, 1, 1], class_nodeids = [1, 1, 3, "
      "3, 4], class_treeids = [0, 0, 0, 0, 0], class_weights = [0.75, "
      "0.25, 0.5, 0.5, 1.0], classlabels_int64s = [7, 8]>(x) } ",
      {{"x", Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {4}, {7, 7, 7, 8});
  ExpectNumbers((*y)[1], {4, 2}, {0.75, 0.25, 0.75, 0.25, 0.5, 0.5, 0, 1});
}

TEST(LowerTreesTest, AnEnsembleOfVersion5HasLeavesOfItsOwn) {
  const auto y = RunDomain(
      "(float[3, 2] x) => (float[3, 2] y) { y = "
      "ai.onnx.ml.TreeEnsemble<n_targets = 2, leaf_targetids = [0, 1, 0, "
      "1], leaf_weights = float[4] {5.0, 12.0, -10.0, 3.0}, "
      "nodes_featureids = [0, 1], nodes_modes = uint8[2] {0, 4}, "
      "nodes_splits = float[2] {0.5, 1.0}, nodes_trueleafs = [1, 1], "
      "nodes_truenodeids = [0, 1], nodes_falseleafs = [0, 1], "
      "nodes_falsenodeids = [1, 2], tree_roots = [0]>(x) } ",
      {{"x", Floats({3, 2}, {0, 1, 1, 1, 1, 2})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {3, 2}, {5, 0, 0, 12, -10, 0});
}

TEST(LowerTreesTest, ListsHaveOneEntryPerNode) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5], nodes_truenodeids = [1, "
          "0, 3, 0, 0], nodes_falsenodeids = [2, 0, 4, 0, 0], target_ids = "
          "[0, 0, 0], target_nodeids = [1, 3, 4], target_treeids = [0, 0, 0], "
          "target_weights = [1.0, 2.0, 4.0]>(x) } "),
      HasSubstr("'nodes_values' has 1 entries and needs 5"));
}

TEST(LowerTreesTest, ChildrenAreThere) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 33, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr(
          "node 2 of tree 0 names node 33 of tree 0, which is not there"));
}

TEST(LowerTreesTest, TreesHaveNoCycles) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 0, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr("a tree has no cycles"));
}

TEST(LowerTreesTest, NodesAreThereOnce) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 3], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr("node 3 of tree 0 is there twice"));
}

TEST(LowerTreesTest, FeaturesAreOfTheInput) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 2, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr("a node compares feature 2; the input has 2"));
}

TEST(LowerTreesTest, ModesAreKnown) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_MAYBE\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr("the mode 'BRANCH_MAYBE' of a node is unknown"));
}

TEST(LowerTreesTest, TargetsAreInRange) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 1, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr("'target_ids' has 1, which must be from 0 to 0"));
}

TEST(LowerTreesTest, WeightsAreOfNodes) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 9], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0]>(x) "
          "} "),
      HasSubstr("names node 9 of tree 0, which is not there"));
}

TEST(LowerTreesTest, WeightsHaveOneEntryPerLeaf) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0]>(x) } "),
      HasSubstr("'target_weights' has 2 entries and needs 3"));
}

TEST(LowerTreesTest, TreesHaveNodes) {
  EXPECT_THAT(Refusal("(float[1, 2] x) => (float[1, 1] y) { y = "
                      "ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1>(x) } "),
              HasSubstr("has no nodes"));
}

TEST(LowerTreesTest, TargetsAreAboveZero) {
  EXPECT_THAT(Refusal("(float[1, 2] x) => (float[1, 1] y) { y = "
                      "ai.onnx.ml.TreeEnsembleRegressor<n_targets = 0>(x) } "),
              HasSubstr("n_targets 0 must be from 1"));
}

TEST(LowerTreesTest, LeavesOfVersion5AreThere) {
  EXPECT_THAT(
      Refusal("(float[1, 2] x) => (float[1, 1] y) { y = "
              "ai.onnx.ml.TreeEnsemble<leaf_targetids = [0], leaf_weights = "
              "float[1] {5.0}, nodes_featureids = [0], nodes_modes = uint8[1] "
              "{0}, nodes_splits = float[1] {0.5}, nodes_trueleafs = [1], "
              "nodes_truenodeids = [0], nodes_falseleafs = [1], "
              "nodes_falsenodeids = [1], tree_roots = [0]>(x) } "),
      HasSubstr("a node names the leaf 1; there are 1"));
}

TEST(LowerTreesTest, MembersAreThere) {
  EXPECT_THAT(
      Refusal("(float[1, 2] x) => (float[1, 1] y) { y = "
              "ai.onnx.ml.TreeEnsemble<leaf_targetids = [0], leaf_weights = "
              "float[1] {5.0}, nodes_featureids = [0], nodes_modes = uint8[1] "
              "{6}, nodes_splits = float[1] {0.5}, nodes_trueleafs = [1], "
              "nodes_truenodeids = [0], nodes_falseleafs = [1], "
              "nodes_falsenodeids = [0], tree_roots = [0]>(x) } "),
      HasSubstr("'membership_values' has no set for node 0"));
}

TEST(LowerTreesTest, BaseValuesFitTheTargets) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 2] x) => (float[1, 1] y) { y = "
          "ai.onnx.ml.TreeEnsembleRegressor<nodes_treeids = [0, 0, 0, 0, 0], "
          "nodes_nodeids = [0, 1, 2, 3, 4], nodes_featureids = [0, 0, 1, 0, "
          "0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LT\", "
          "\"LEAF\", \"LEAF\"], nodes_values = [0.5, 0.0, 0.0, 0.0, 0.0], "
          "nodes_truenodeids = [1, 0, 3, 0, 0], nodes_falsenodeids = [2, 0, "
          "4, 0, 0], target_ids = [0, 0, 0], target_nodeids = [1, 3, 4], "
          "target_treeids = [0, 0, 0], target_weights = [1.0, 2.0, 4.0], "
          "base_values = [1.0, 2.0]>(x) } "),
      HasSubstr("'base_values' has 2 numbers and needs 1"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
