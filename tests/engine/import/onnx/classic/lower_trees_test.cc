#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cpu/flush_denormals.h"
#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const HostTensor kRowsWithNan =
    Floats({5, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0, kNan, 1});
const HostTensor kTreesRows = Floats({4, 2}, {0, 0, 0.5, 9, 0.75, -1, 0.75, 0});

// The attributes of a node, as the text format of ONNX has them.
using AttributeTexts = std::map<std::string, std::string>;

// Two comparisons: x0 <= 0.5 ? leaf 1 : x1 < 0 ? leaf 3 : leaf 4.
const AttributeTexts kBranches = {
    {"nodes_treeids", "[0, 0, 0, 0, 0]"},
    {"nodes_nodeids", "[0, 1, 2, 3, 4]"},
    {"nodes_featureids", "[0, 0, 1, 0, 0]"},
    {"nodes_modes", R"(["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF"])"},
    {"nodes_values", "[0.5, 0.0, 0.0, 0.0, 0.0]"},
    {"nodes_truenodeids", "[1, 0, 3, 0, 0]"},
    {"nodes_falsenodeids", "[2, 0, 4, 0, 0]"}};
// The weights of its leaves for one target.
const AttributeTexts kWeights = {{"target_ids", "[0, 0, 0]"},
                                 {"target_nodeids", "[1, 3, 4]"},
                                 {"target_treeids", "[0, 0, 0]"},
                                 {"target_weights", "[1.0, 2.0, 4.0]"}};
// The same tree twice, with weights of its own each time.
const AttributeTexts kTwoTrees = {
    {"nodes_treeids", "[0, 0, 0, 0, 0, 1, 1, 1, 1, 1]"},
    {"nodes_nodeids", "[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]"},
    {"nodes_featureids", "[0, 0, 1, 0, 0, 0, 0, 1, 0, 0]"},
    {"nodes_modes",
     R"(["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF",
         "BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF"])"},
    {"nodes_values", "[0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0]"},
    {"nodes_truenodeids", "[1, 0, 3, 0, 0, 1, 0, 3, 0, 0]"},
    {"nodes_falsenodeids", "[2, 0, 4, 0, 0, 2, 0, 4, 0, 0]"},
    {"target_ids", "[0, 0, 0, 0, 0, 0]"},
    {"target_nodeids", "[1, 3, 4, 1, 3, 4]"},
    {"target_treeids", "[0, 0, 0, 1, 1, 1]"},
    {"target_weights", "[1.0, 2.0, 4.0, 10.0, -20.0, 40.0]"}};

// Returns "y = ai.onnx.ml.TreeEnsemble...". Later attributes replace earlier
// ones of the same name.
std::string Trees(const std::string& results,
                  std::initializer_list<AttributeTexts> attributes) {
  AttributeTexts all;
  for (const AttributeTexts& some : attributes) {
    for (const auto& [name, text] : some) all[name] = text;
  }
  return absl::StrCat(results, "<",
                      absl::StrJoin(all, ", ", absl::PairFormatter(" = ")),
                      ">(x)");
}
std::string Regressor(std::initializer_list<AttributeTexts> attributes) {
  return Trees("y = ai.onnx.ml.TreeEnsembleRegressor", attributes);
}
std::string Classifier(std::initializer_list<AttributeTexts> attributes) {
  return Trees("l, s = ai.onnx.ml.TreeEnsembleClassifier", attributes);
}

// Returns a tree of one comparison: 1 where it holds, else `otherwise`.
std::string Comparison(const std::string& mode, const std::string& threshold,
                       const std::string& otherwise = "0.0") {
  return Regressor(
      {{{"nodes_treeids", "[0, 0, 0]"},
        {"nodes_nodeids", "[0, 1, 2]"},
        {"nodes_featureids", "[0, 0, 0]"},
        {"nodes_modes", absl::StrCat("[\"", mode, "\", \"LEAF\", \"LEAF\"]")},
        {"nodes_values", absl::StrCat("[", threshold, ", 0.0, 0.0]")},
        {"nodes_truenodeids", "[1, 0, 0]"},
        {"nodes_falsenodeids", "[2, 0, 0]"},
        {"target_ids", "[0, 0]"},
        {"target_nodeids", "[1, 2]"},
        {"target_treeids", "[0, 0]"},
        {"target_weights", absl::StrCat("[1.0, ", otherwise, "]")}}});
}

// NaN is not <= 0.5.
TEST(LowerTreesTest, RowsReachTheirLeaf) {
  ExpectOutputs(Regressor({kBranches, kWeights, {{"base_values", "[0.5]"}}}),
                {{"x", kRowsWithNan}},
                {{"y", Floats({5, 1}, {1.5, 1.5, 2.5, 4.5, 4.5})}});
}

TEST(LowerTreesTest, MissingNumbersMayTakeTheOtherBranch) {
  ExpectOutputs(
      Regressor({kBranches,
                 kWeights,
                 {{"nodes_missing_value_tracks_true", "[1, 0, 0, 0, 0]"}}}),
      {{"x", kRowsWithNan}}, {{"y", Floats({5, 1}, {1, 1, 2, 4, 1})}});
}

struct ComparisonCase {
  std::string mode;
  std::vector<double> y;
};

// Only NEQ holds for NaN.
TEST(LowerTreesTest, EveryModeComparesAsItsName) {
  const HostTensor x = Floats({4, 1}, {0, 0.5, 0.75, kNan});
  for (const auto& [mode, y] :
       std::vector<ComparisonCase>{{"BRANCH_LEQ", {1, 1, 0, 0}},
                                   {"BRANCH_LT", {1, 0, 0, 0}},
                                   {"BRANCH_GTE", {0, 1, 1, 0}},
                                   {"BRANCH_GT", {0, 0, 1, 0}},
                                   {"BRANCH_EQ", {0, 1, 0, 0}},
                                   {"BRANCH_NEQ", {1, 0, 1, 1}}}) {
    SCOPED_TRACE(mode);
    ExpectOutputs(Comparison(mode, "0.5"), {{"x", x}},
                  {{"y", Floats({4, 1}, y)}});
  }
}

TEST(LowerTreesTest, ThresholdsOfZeroAreExact) {
  const HostTensor x = Floats({3, 1}, {-1e-30, 0, 1e-30});
  for (const auto& [mode, y] :
       std::vector<ComparisonCase>{{"BRANCH_LEQ", {1, 1, 0}},
                                   {"BRANCH_LT", {1, 0, 0}},
                                   {"BRANCH_GTE", {0, 1, 1}},
                                   {"BRANCH_GT", {0, 0, 1}},
                                   {"BRANCH_EQ", {0, 1, 0}},
                                   {"BRANCH_NEQ", {1, 0, 1}}}) {
    SCOPED_TRACE(mode);
    ExpectOutputs(Comparison(mode, "0.0"), {{"x", x}},
                  {{"y", Floats({3, 1}, y)}});
  }
}

// A thread that takes denormal numbers for 0 makes the same table.
TEST(LowerTreesTest, ThresholdsOfZeroAreExactWhereDenormalsAreFlushed) {
  std::thread([] {
    FlushDenormals();
    ExpectOutputs(Comparison("BRANCH_LT", "0.0", "2.0"),
                  {{"x", Floats({2, 1}, {0, -1})}},
                  {{"y", Floats({2, 1}, {2, 1})}});
  }).join();
}

TEST(LowerTreesTest, TreesAreSummedOrAveraged) {
  for (const auto& [function, y] :
       std::vector<ComparisonCase>{{"SUM", {11, 11, -18, 44}},
                                   {"AVERAGE", {5.5, 5.5, -9, 22}},
                                   {"MIN", {1, 1, -20, 4}},
                                   {"MAX", {10, 10, 2, 40}}}) {
    SCOPED_TRACE(function);
    ExpectOutputs(Regressor({kTwoTrees,
                             {{"aggregate_function",
                               absl::StrCat("\"", function, "\"")}}}),
                  {{"x", kTreesRows}}, {{"y", Floats({4, 1}, y)}});
  }
}

TEST(LowerTreesTest, ATreeMayHaveATargetOfItsOwn) {
  const AttributeTexts targets = {{"target_ids", "[0, 0, 0, 1, 1, 1]"},
                                  {"n_targets", "2"}};
  ExpectOutputs(
      Regressor({kTwoTrees, targets, {{"base_values", "[0.5, 0.25]"}}}),
      {{"x", kTreesRows}},
      {{"y",
        Floats({4, 2}, {1.5, 10.25, 1.5, 10.25, 2.5, -19.75, 4.5, 40.25})}});
  ExpectOutputs(
      Regressor({kTwoTrees, targets, {{"aggregate_function", "\"MIN\""}}}),
      {{"x", kTreesRows}},
      {{"y", Floats({4, 2}, {1, 10, 1, 10, 2, -20, 4, 40})}});
}

// The weights of one class of two.
const AttributeTexts kOneClass = {{"class_ids", "[0, 0, 0]"},
                                  {"class_nodeids", "[1, 3, 4]"},
                                  {"class_treeids", "[0, 0, 0]"},
                                  {"class_weights", "[0.25, 0.5, 0.75]"},
                                  {"classlabels_int64s", "[7, 8]"}};

TEST(LowerTreesTest, TheLargestSumIsTheClass) {
  ExpectOutputs(
      Classifier({kBranches,
                  {{"class_ids", "[0, 1, 2, 0, 2, 1]"},
                   {"class_nodeids", "[1, 1, 1, 3, 3, 4]"},
                   {"class_treeids", "[0, 0, 0, 0, 0, 0]"},
                   {"class_weights", "[0.5, 0.25, 0.25, 0.9, 0.1, 1.0]"},
                   {"classlabels_int64s", "[7, 8, 9]"}}}),
      {{"x", kTreesRows}},
      {{"l", Ints({4}, {7, 7, 7, 8})},
       {"s", Floats({4, 3}, {0.5, 0.25, 0.25, 0.5, 0.25, 0.25, 0.9, 0, 0.1, 0,
                             1, 0})}});
}

TEST(LowerTreesTest, WeightsOfOneOfTwoClassesAreProbabilities) {
  ExpectOutputs(
      Classifier({kBranches, kOneClass}), {{"x", kTreesRows}},
      {{"l", Ints({4}, {7, 7, 7, 8})},
       {"s", Floats({4, 2}, {0.75, 0.25, 0.75, 0.25, 0.5, 0.5, 0.25, 0.75})}});
}

TEST(LowerTreesTest, WeightsBelowZeroAreDecidedAtZero) {
  ExpectOutputs(
      Classifier({kBranches,
                  kOneClass,
                  {{"class_weights", "[-1.0, 0.5, 2.0]"},
                   {"post_transform", "\"LOGISTIC\""},
                   {"base_values", "[0.25]"}}}),
      {{"x", kTreesRows}},
      {{"l", Ints({4}, {7, 7, 8, 8})},
       {"s", Floats({4, 2}, {0.6791787, 0.3208213, 0.6791787, 0.3208213,
                             0.3208213, 0.6791787, 0.09534947, 0.9046505})}});
}

TEST(LowerTreesTest, TheFirstClassMayHaveNoWeights) {
  ExpectOutputs(
      Classifier({kBranches, kOneClass, {{"class_ids", "[1, 1, 1]"}}}),
      {{"x", kTreesRows}},
      {{"l", Ints({4}, {7, 7, 7, 8})},
       {"s", Floats({4, 2}, {0, 0.25, 0, 0.25, 0, 0.5, 0, 0.75})}});
}

TEST(LowerTreesTest, BothClassesMayHaveWeights) {
  ExpectOutputs(
      Classifier({kBranches,
                  kOneClass,
                  {{"class_ids", "[0, 1, 0, 1, 1]"},
                   {"class_nodeids", "[1, 1, 3, 3, 4]"},
                   {"class_treeids", "[0, 0, 0, 0, 0]"},
                   {"class_weights", "[0.75, 0.25, 0.5, 0.5, 1.0]"}}}),
      {{"x", kTreesRows}},
      {{"l", Ints({4}, {7, 7, 7, 8})},
       {"s", Floats({4, 2}, {0.75, 0.25, 0.75, 0.25, 0.5, 0.5, 0, 1})}});
}

TEST(LowerTreesTest, AnEnsembleOfVersion5HasLeavesOfItsOwn) {
  ExpectOutputs(
      "y = ai.onnx.ml.TreeEnsemble<n_targets = 2, leaf_targetids = [0, 1, "
      "0, 1], leaf_weights = float[4] {5.0, 12.0, -10.0, 3.0}, "
      "nodes_featureids = [0, 1], nodes_modes = uint8[2] {0, 4}, "
      "nodes_splits = float[2] {0.5, 1.0}, nodes_trueleafs = [1, 1], "
      "nodes_truenodeids = [0, 1], nodes_falseleafs = [0, 1], "
      "nodes_falsenodeids = [1, 2], tree_roots = [0]>(x)",
      {{"x", Floats({3, 2}, {0, 1, 1, 1, 1, 2})}},
      {{"y", Floats({3, 2}, {5, 0, 0, 12, -10, 0})}});
}

constexpr char kTreesPorts[] = "(float[1, 2] x) => (float[1, 1] y)";

// Returns the tree with one attribute changed.
std::string Changed(const std::string& name, const std::string& text) {
  return Regressor({kBranches, kWeights, {{name, text}}});
}

const RefusedNodes kTreesRefused[] = {
    {"ListsHaveOneEntryPerNode", kTreesPorts, Changed("nodes_values", "[0.5]"),
     "'nodes_values' has 1 entries and needs 5"},
    {"ChildrenAreThere", kTreesPorts,
     Changed("nodes_truenodeids", "[1, 0, 33, 0, 0]"),
     "node 2 of tree 0 names node 33 of tree 0, which is not there"},
    {"TreesHaveNoCycles", kTreesPorts,
     Changed("nodes_truenodeids", "[1, 0, 0, 0, 0]"), "a tree has no cycles"},
    {"NodesAreThereOnce", kTreesPorts,
     Changed("nodes_nodeids", "[0, 1, 2, 3, 3]"),
     "node 3 of tree 0 is there twice"},
    {"FeaturesAreOfTheInput", kTreesPorts,
     Changed("nodes_featureids", "[0, 0, 2, 0, 0]"),
     "a node compares feature 2; the input has 2"},
    {"ModesAreKnown", kTreesPorts,
     Changed("nodes_modes",
             R"(["BRANCH_MAYBE", "LEAF", "BRANCH_LT", "LEAF", "LEAF"])"),
     "the mode 'BRANCH_MAYBE' of a node is unknown"},
    {"TargetsAreInRange", kTreesPorts, Changed("target_ids", "[0, 1, 0]"),
     "'target_ids' has 1, which must be from 0 to 0"},
    {"WeightsAreOfNodes", kTreesPorts, Changed("target_nodeids", "[1, 3, 9]"),
     "names node 9 of tree 0, which is not there"},
    {"WeightsHaveOneEntryPerLeaf", kTreesPorts,
     Changed("target_weights", "[1.0, 2.0]"),
     "'target_weights' has 2 entries and needs 3"},
    {"BaseValuesFitTheTargets", kTreesPorts,
     Changed("base_values", "[1.0, 2.0]"),
     "'base_values' has 2 numbers and needs 1"},
    {"TreesHaveNodes", kTreesPorts, Regressor({{{"n_targets", "1"}}}),
     "has no nodes"},
    {"TargetsAreAboveZero", kTreesPorts, Regressor({{{"n_targets", "0"}}}),
     "n_targets 0 must be from 1"},
    {"LeavesOfVersion5AreThere", kTreesPorts,
     "y = ai.onnx.ml.TreeEnsemble<leaf_targetids = [0], leaf_weights = "
     "float[1] {5.0}, nodes_featureids = [0], nodes_modes = uint8[1] {0}, "
     "nodes_splits = float[1] {0.5}, nodes_trueleafs = [1], "
     "nodes_truenodeids = [0], nodes_falseleafs = [1], nodes_falsenodeids "
     "= [1], tree_roots = [0]>(x)",
     "a node names the leaf 1; there are 1"},
    {"MembersAreThere", kTreesPorts,
     "y = ai.onnx.ml.TreeEnsemble<leaf_targetids = [0], leaf_weights = "
     "float[1] {5.0}, nodes_featureids = [0], nodes_modes = uint8[1] {6}, "
     "nodes_splits = float[1] {0.5}, nodes_trueleafs = [1], "
     "nodes_truenodeids = [0], nodes_falseleafs = [1], nodes_falsenodeids "
     "= [0], tree_roots = [0]>(x)",
     "'membership_values' has no set for node 0"},
};

TEST(LowerTreesTest, RefusesWhatDoesNotFit) { ExpectRefusals(kTreesRefused); }

}  // namespace
}  // namespace gpupool::engine::onnx_import
