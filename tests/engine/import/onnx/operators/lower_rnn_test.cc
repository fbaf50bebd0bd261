#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One unit whose gates depend only on the input: h = tanh(x) at each step.
constexpr char kRnn[] =
    "(float[3, 2, 1] x, float[1, 1, 1] w, float[1, 1, 1] r, int32[2] n) => "
    "(float[3, 1, 2, 1] y, float[1, 2, 1] h) ";

std::map<std::string, HostTensor> RnnInputs(double recurrence) {
  HostTensor lengths = Ints({2}, {3, 1});
  lengths.dtype = DType::kInt32;
  return {{"x", Floats({3, 2, 1}, {1, 10, 2, 20, 3, 30})},
          {"w", Floats({1, 1, 1}, {1})},
          {"r", Floats({1, 1, 1}, {recurrence})},
          {"n", lengths}};
}

TEST(LowerRnnTest, ShortSequencesEndEarlyInBothDirections) {
  for (const char* direction : {"forward", "reverse"}) {
    const auto y = RunLowering(
        {.opset = 14,
         .graph = std::string(kRnn) +
                  "{ y, h = RNN<hidden_size = 1, activations = [\"Relu\"], "
                  "direction = \"" +
                  direction + "\">(x, w, r, , n) }",
         .inputs = RnnInputs(1)});
    ASSERT_TRUE(y.ok()) << y.status();
    const bool forward = std::string(direction) == "forward";
    if (forward) {
      EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 10, 3, 0, 6, 0));
    } else {
      EXPECT_THAT((*y)[0].numbers, ElementsAre(6, 10, 5, 0, 3, 0));
    }
    EXPECT_THAT((*y)[1].numbers, ElementsAre(6, 10));
  }
}

TEST(LowerRnnTest, TheInputsAreMultipliedOnceForAllSteps) {
  const auto model = ImportLowering(
      {.opset = 14,
       .graph =
           "(float[4, 2, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => "
           "(float[4, 1, 2, 2] y) { y = LSTM<hidden_size = 2>(x, w, r) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(model->graph, Op::kMatMul), 1 + 4);
}

TEST(LowerRnnTest, BatchMayComeFirst) {
  const auto y = RunLowering(
      {.opset = 14,
       .graph = "(float[1, 2, 1] x, float[1, 1, 1] w, float[1, 1, 1] r) => "
                "(float[1, 2, 1, 1] y, float[1, 1, 1] h) "
                "{ y, h = RNN<hidden_size = 1, layout = 1, "
                "activations = [\"Relu\"], clip = 4.0>(x, w, r) }",
       .inputs = {{"x", Floats({1, 2, 1}, {1, 9})},
                  {"w", Floats({1, 1, 1}, {1})},
                  {"r", Floats({1, 1, 1}, {1})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape, Shape({1, 2, 1, 1}));
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 4));
}

TEST(LowerRnnTest, HostileFilesAreRefused) {
  for (const char* attributes :
       {"hidden_size = 2", "direction = \"up\"", "clip = -1.0",
        "activations = [\"Gelu\"]", "direction = \"bidirectional\"",
        "activations = [\"Tanh\", \"Tanh\"]"}) {
    const auto y =
        ImportLowering({.opset = 14,
                        .graph = std::string(kRnn) + "{ y, h = RNN<" +
                                 attributes + ">(x, w, r, , n) }",
                        .inputs = RnnInputs(0)});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument)
        << attributes;
  }
  const auto endless = ImportLowering(
      {.opset = 14,
       .graph = "(float[1000000, 1, 1] x, float[1, 1, 1] w, float[1, 1, 1] r) "
                "=> (float[1, 1, 1] h) { y, h = RNN(x, w, r) }"});
  EXPECT_THAT(std::string(endless.status().message()), HasSubstr("limit"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
