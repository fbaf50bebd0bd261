#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

const HostTensor kLinearRows =
    Floats({2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27});

TEST(LowerLinearTest, RegressorMultipliesAndAdds) {
  ExpectOutputs(
      "y = ai.onnx.ml.LinearRegressor<targets = 2, coefficients = [-0.04, "
      "-0.68, 0.47, -0.77, -0.22, 0.03], intercepts = [-0.14, 0.17]>(x) z "
      "= ai.onnx.ml.LinearRegressor<coefficients = [-0.04, -0.68, 0.47], "
      "post_transform = \"LOGISTIC\">(x)",
      {{"x", kLinearRows}},
      {{"y", Floats({2, 2}, {1.2091, 1.7155, 0.8215, 0.2642})},
       {"z", Floats({2, 1}, {0.7939824, 0.7234221})}});
}

TEST(LowerLinearTest, ClassifierTakesTheLargestScore) {
  ExpectOutputs(
      "l, s = ai.onnx.ml.LinearClassifier<classlabels_ints = [10, 20, 30], "
      "coefficients = [0.48, 0.91, -0.43, 0.3, 0.39, -0.41, -1.0, 0.95, "
      "-0.4], intercepts = [-0.37, 0.78, 0.17], post_transform = "
      "\"SOFTMAX\">(x)",
      {{"x", kLinearRows}},
      {{"l", Ints({2}, {30, 20})},
       {"s", Floats({2, 3}, {0.03516377, 0.264811, 0.7000252, 0.1129698,
                             0.7764412, 0.110589})}});
}

TEST(LowerLinearTest, OneScoreOfTwoClassesIsThatOfTheSecond) {
  ExpectOutputs(
      "l, s = ai.onnx.ml.LinearClassifier<classlabels_ints = [10, 20], "
      "coefficients = [-0.04, -0.68, 0.47], intercepts = [-0.14], "
      "post_transform = \"LOGISTIC\">(x)",
      {{"x", kLinearRows}},
      {{"l", Ints({2}, {20, 20})},
       {"s", Floats({2, 2}, {0.2298603, 0.7701397, 0.3054454, 0.6945546})}});
}

TEST(LowerLinearTest, ScoresOfZeroMayStayZero) {
  ExpectOutputs(
      "l, s = ai.onnx.ml.LinearClassifier<classlabels_ints = [1, 2, 3], "
      "coefficients = [0.0, 1.0, -1.0], post_transform = "
      "\"SOFTMAX_ZERO\">(x)",
      {{"x", Floats({1, 1}, {1})}},
      {{"l", Ints({1}, {2})}, {"s", Floats({1, 3}, {0, 0.880797, 0.1192029})}});
}

TEST(LowerLinearTest, TextLabelsAreServedAsPlaces) {
  const LoweringCase one = DomainCase(
      "(float[1, 1] x) => (int64[1] l, float[1, 2] s) "
      "{ l, s = ai.onnx.ml.LinearClassifier<classlabels_strings = "
      "[\"cat\", \"dog\"], coefficients = [1.0, 2.0]>(x) }",
      {{"x", Floats({1, 1}, {1})}});
  const auto y = RunLowering(one);
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {1}, {1});
  const auto model = ImportLowering(one);
  EXPECT_THAT(
      model->warnings,
      Contains(AllOf(HasSubstr("its labels are texts, which are not served"),
                     HasSubstr("among: cat, dog"))));
}

constexpr char kLinearPorts[] =
    "(float[1, 3] x) => (int64[1] l, float[1, 3] s)";
const RefusedNodes kLinearRefused[] = {
    {"CoefficientsFitTheFeatures", kLinearPorts,
     "l, s = ai.onnx.ml.LinearClassifier<classlabels_ints = [1, 2], "
     "coefficients = [1.0, 2.0, 3.0, 4.0]>(x)",
     "'coefficients' has 4 numbers; 1 targets of 3 features need one each"},
    {"EveryScoreHasALabel", kLinearPorts,
     "l, s = ai.onnx.ml.LinearClassifier<classlabels_ints = [1, 2, 3], "
     "coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]>(x)",
     "has 3 labels for 2 scores"},
    {"ClassesHaveLabels", kLinearPorts,
     "l, s = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, "
     "3.0]>(x)",
     "needs the labels of its classes in one of 'classlabels_ints'"},
    {"TargetsAreBounded", "(float[1, 3] x) => (float[1, 3] s)",
     "s = ai.onnx.ml.LinearRegressor<targets = 4611686018427387904, "
     "coefficients = [1.0]>(x)",
     "4611686018427387904 targets of 3 features"},
    {"TransformsAreKnown", "(float[1, 3] x) => (float[1, 3] s)",
     "s = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0], "
     "post_transform = \"EXP\">(x)",
     "post_transform 'EXP' must be"},
};

TEST(LowerLinearTest, RefusesWhatDoesNotFit) { ExpectRefusals(kLinearRefused); }

}  // namespace
}  // namespace gpupool::engine::onnx_import
