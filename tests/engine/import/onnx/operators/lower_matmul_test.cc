#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerMatMulTest, AMatrixOnTheRightIsOneProductOfMatrices) {
  const auto model = ImportLowering(
      {.graph = "(float[2, 3, 4] a, float[4, 5] b) => (float[2, 3, 5] y) "
                "{ y = MatMul(a, b) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(model->graph, Op::kMatMul), 1);
  EXPECT_EQ(model->outputs[0].shape, Shape({2, 3, 5}));
}

TEST(LowerMatMulTest, VectorsAreRowsAndColumns) {
  const auto y = RunLowering(
      {.graph =
           "(float[2] a, float[2, 2] b) => (float[2] y, float[2] z, "
           "float d) { y = MatMul(a, b) z = MatMul(b, a) d = MatMul(a, a) }",
       .inputs = {{"a", Floats({2}, {1, 10})},
                  {"b", Floats({2, 2}, {1, 2, 3, 4})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(31, 42));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(21, 43));
  EXPECT_THAT((*y)[2].numbers, ElementsAre(101));
  EXPECT_EQ((*y)[2].shape.rank(), 0);
}

TEST(LowerMatMulTest, GemmWithABiasIsOneNode) {
  const auto model = ImportLowering(
      {.graph = "(float[2, 3] a, float[4, 3] b, float[4] c) => (float[2, 4] y) "
                "{ y = Gemm<transB = 1>(a, b, c) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.nodes().size(), 1u);
}

TEST(LowerMatMulTest, GemmScalesProductAndSummand) {
  const auto y = RunLowering(
      {.graph =
           "(float[1, 2] a, float[2, 1] b, float[1, 1] c) => "
           "(float[1, 1] y) { y = Gemm<alpha = 2.0, beta = 3.0>(a, b, c) }",
       .inputs = {{"a", Floats({1, 2}, {1, 2})},
                  {"b", Floats({2, 1}, {3, 4})},
                  {"c", Floats({1, 1}, {5})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(37));
}

TEST(LowerMatMulTest, ASummandLargerThanTheProductIsRefused) {
  const auto y = ImportLowering(
      {.graph = "(float[1, 2] a, float[2, 2] b, float[3, 2] c) => "
                "(float[3, 2] y) { y = Gemm(a, b, c) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
