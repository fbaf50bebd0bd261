#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Evaluate(const std::string& equation, HostTensor a,
                             HostTensor b) {
  const auto y =
      RunLowering({.graph = "(float[N, M] a, float[K, L] b) => (float[P] y) "
                            "{ y = Einsum<equation = \"" +
                            equation + "\">(a, b) }",
                   .inputs = {{"a", std::move(a)}, {"b", std::move(b)}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

TEST(LowerEinsumTest, ProductsOfTwo) {
  const HostTensor a = Floats({2, 2}, {1, 2, 3, 4});
  const HostTensor b = Floats({2, 2}, {5, 6, 7, 8});
  EXPECT_THAT(Evaluate("ij,jk->ik", a, b), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(Evaluate("ij,ij->ij", a, b), ElementsAre(5, 12, 21, 32));
  EXPECT_THAT(Evaluate("ij,kj->ki", a, b), ElementsAre(17, 39, 23, 53));
  EXPECT_THAT(Evaluate("ij, ij", a, b), ElementsAre(70));
  EXPECT_THAT(Evaluate("ii,jj->", a, b), ElementsAre(65));
  EXPECT_THAT(Evaluate("ii,ij->j", a, b), ElementsAre(33, 38));
  EXPECT_THAT(Evaluate("...j,...j->...", a, b), ElementsAre(17, 53));
}

TEST(LowerEinsumTest, WhatIsNoEquationIsRefused) {
  for (const char* equation :
       {"ij->ij", "ij,jk->iz", "ij,jk->ii", "ij,jk->ik->k", "i,jk->ik",
        "i1,jk->ik", "ij,jk,kl->il", "ijk...,jk->i"}) {
    const auto y = ImportLowering(
        {.graph = std::string("(float[2, 2] a, float[2, 2] b) => (float[P] y) "
                              "{ y = Einsum<equation = \"") +
                  equation + "\">(a, b) }"});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument)
        << equation;
  }
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
