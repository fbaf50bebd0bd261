#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

const HostTensor kSvmRows =
    Floats({2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27});

// NumPy: sum of coefficient * K(x, vector), plus rho.
TEST(LowerSvmTest, RegressorSumsKernels) {
  const std::vector<std::pair<std::string, std::vector<double>>> kernels = {
      {"LINEAR", {-0.7619458, -0.8920841}},
      {"POLY", {0.4489365, 0.0147848}},
      {"RBF", {0.1248083, 0.0302406}},
      {"SIGMOID", {-0.1612598, -0.2648429}}};
  for (const auto& [kernel, y] : kernels) {
    SCOPED_TRACE(kernel);
    ExpectOutputs(
        absl::StrCat(
            "y = ai.onnx.ml.SVMRegressor<kernel_type = \"", kernel,
            "\", kernel_params = [0.5, 0.25, 2.0], n_supports = 3, "
            "support_vectors = [-0.06, 0.55, -0.94, 0.41, -0.25, -0.82, "
            "0.32, 0.86, -0.59], coefficients = [0.26, -0.4, 0.48], "
            "rho = [0.125]>(x)"),
        {{"x", kSvmRows}}, {{"y", Floats({2, 1}, y)}});
  }
}

TEST(LowerSvmTest, OneClassGivesASign) {
  ExpectOutputs(
      "y = ai.onnx.ml.SVMRegressor<n_supports = 0, coefficients = [0.26, "
      "-0.4, 0.48], rho = [0.125], one_class = 1>(x)",
      {{"x", kSvmRows}}, {{"y", Floats({2, 1}, {1, 1})}});
}

// Returns a classifier of three classes.
std::string ThreeClasses(const std::string& more_attributes) {
  return absl::StrCat(
      "l, s = ai.onnx.ml.SVMClassifier<classlabels_ints = [10, 20, 30], "
      "kernel_type = \"RBF\", kernel_params = [0.5, 0.0, 0.0], "
      "vectors_per_class = [1, 2, 1], support_vectors = [0.44, -0.56, "
      "0.66, 0.32, 0.37, 0.64, -0.14, 0.52, 0.76, -0.8, 0.7, -0.21], "
      "coefficients = [-0.04, -0.71, 0.4, -0.42, 0.74, -0.45, 0.12, -0.2], "
      "rho = [0.23, -0.61, -0.64]",
      more_attributes, ">(x)");
}

// NumPy: the score of a pair i < j sums the kernels of i's vectors with row j
// - 1 of the coefficients, and of j's with row i.
TEST(LowerSvmTest, ClassesVoteInPairs) {
  ExpectOutputs(ThreeClasses(""), {{"x", kSvmRows}},
                {{"l", Ints({2}, {30, 30})},
                 {"s", Floats({2, 3}, {0.2288251, -0.5706972, -0.6605995,
                                       0.1718455, -0.3528622, -0.6818077})}});
}

// NumPy: the least p^T Q p with a sum of 1, by the linear system of its
// multipliers.
TEST(LowerSvmTest, PairsGiveProbabilities) {
  ExpectOutputs(
      ThreeClasses(", prob_a = [-1.0, -2.0, -1.5], prob_b = [0.1, -0.2, 0.3]"),
      {{"x", kSvmRows}},
      {{"l", Ints({2}, {30, 30})},
       {"s", Floats({2, 3}, {0.224231, 0.1754722, 0.6002968, 0.2812114,
                             0.1824053, 0.5363833})}});
}

TEST(LowerSvmTest, TwoClassesHaveTwoColumns) {
  ExpectOutputs(
      "l, s = ai.onnx.ml.SVMClassifier<classlabels_ints = [10, 20], "
      "kernel_type = \"RBF\", kernel_params = [0.5, 0.0, 0.0], "
      "vectors_per_class = [1, 2], support_vectors = [0.44, -0.56, 0.66, "
      "0.32, 0.37, 0.64, -0.14, 0.52, 0.76], coefficients = [-0.04, -0.71, "
      "0.4], rho = [0.23]>(x)",
      {{"x", kSvmRows}},
      {{"l", Ints({2}, {10, 10})},
       {"s", Floats({2, 2}, {-0.2288251, 0.2288251, -0.1718455, 0.1718455})}});
}

TEST(LowerSvmTest, WithoutVectorsScoresAreLinear) {
  ExpectOutputs(
      "l, s = ai.onnx.ml.SVMClassifier<classlabels_ints = [1, 2, 3], "
      "coefficients = [0.49, 0.5, 0.13, 0.84, -0.59, 0.7, -0.66, 0.93, "
      "0.25], rho = [0.125]>(x)",
      {{"x", kSvmRows}},
      {{"l", Ints({2}, {3, 2})},
       {"s",
        Floats({2, 3}, {-1.0561, 0.1971, 0.5466, -0.5584, 1.169, -1.6669})}});
}

constexpr char kSvmPorts[] = "(float[1, 3] x) => (float[1, 3] s)";
const RefusedNodes kSvmRefused[] = {
    {"VectorsFitTheFeatures", kSvmPorts,
     "s = ai.onnx.ml.SVMRegressor<n_supports = 2, support_vectors = [1.0, "
     "2.0, 3.0], coefficients = [1.0, 1.0], rho = [0.0]>(x)",
     "'support_vectors' has 3 numbers; 2 vectors of 3 features need one "
     "each"},
    {"EveryPairHasARho", "(float[1, 3] x) => (int64[1] l, float[1, 3] s)",
     "l, s = ai.onnx.ml.SVMClassifier<classlabels_ints = [1, 2, 3], "
     "vectors_per_class = [1, 0, 0], support_vectors = [1.0, 2.0, 3.0], "
     "coefficients = [1.0, 1.0], rho = [0.0]>(x)",
     "'rho' has 1 numbers and needs 3"},
    {"CountsOfVectorsAreNotNegative",
     "(float[1, 3] x) => (int64[1] l, float[1, 3] s)",
     "l, s = ai.onnx.ml.SVMClassifier<classlabels_ints = [1, 2], "
     "vectors_per_class = [-1, 2], support_vectors = [1.0, 2.0, 3.0], "
     "coefficients = [1.0], rho = [0.0]>(x)",
     "'vectors_per_class' has -1"},
    {"KernelsHaveThreeParameters", kSvmPorts,
     "s = ai.onnx.ml.SVMRegressor<kernel_type = \"RBF\", kernel_params = "
     "[1.0], n_supports = 1, support_vectors = [1.0, 2.0, 3.0], "
     "coefficients = [1.0], rho = [0.0]>(x)",
     "'kernel_params' has 1 numbers and needs 3"},
};

TEST(LowerSvmTest, RefusesWhatDoesNotFit) { ExpectRefusals(kSvmRefused); }

}  // namespace
}  // namespace gpupool::engine::onnx_import
