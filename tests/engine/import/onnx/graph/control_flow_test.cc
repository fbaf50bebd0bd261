#include "engine/import/onnx/graph/control_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kIf[] =
    "(float[2] x, bool c) => (float[2] y) { y = If (c) <"
    "then_branch = t () => (float[2] a) { a = Neg(x) }, "
    "else_branch = e () => (float[2] b) { b = Abs(x) }> }";

HostTensor Bool(bool truth) {
  return {DType::kBool, Shape(), {truth ? 1.0 : 0.0}};
}

TEST(ControlFlowTest, AnIfIsTheBranchOfItsCondition) {
  for (const bool truth : {true, false}) {
    const auto y = RunLowering(
        {.graph = kIf,
         .inputs = {{"x", Floats({2}, {1, -2})}, {"c", Bool(truth)}},
         .bound = {"c"}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT((*y)[0].numbers,
                truth ? ElementsAre(-1, 2) : ElementsAre(1, 2));
  }
}

TEST(ControlFlowTest, AnIfAsksForItsCondition) {
  const auto model = ImportLowering({.graph = kIf});
  EXPECT_THAT(NeededInputs(model.status()), ElementsAre("c"));
}

// Doubles x n times and keeps every value.
constexpr char kLoop[] =
    "(float[2] x, int64 n) => (float[2] y, float[N, 2] all) {"
    "y, all = Loop (n, , x) <body = b (int64 i, bool go, float[2] s) => "
    "(bool next, float[2] t, float[2] row) "
    "{ next = Identity(go) t = Add(s, s) row = Identity(t) }> }";

TEST(ControlFlowTest, ALoopIsUnrolled) {
  const auto y =
      RunLowering({.graph = kLoop,
                   .inputs = {{"x", Floats({2}, {1, 3})}, {"n", Ints({}, {3})}},
                   .bound = {"n"}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(8, 24));
  EXPECT_EQ((*y)[1].shape, Shape({3, 2}));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(2, 6, 4, 12, 8, 24));
}

TEST(ControlFlowTest, ALoopThatNeverRunsHasNoRows) {
  const auto y =
      RunLowering({.graph = kLoop,
                   .inputs = {{"x", Floats({2}, {1, 3})}, {"n", Ints({}, {0})}},
                   .bound = {"n"}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 3));
  EXPECT_EQ((*y)[1].shape.elements(), 0);
}

TEST(ControlFlowTest, ALoopEndsWithItsConditionAndAtALimit) {
  const std::string head =
      "(int64 x) => (int64 y) <int64 one = {1}, int64 many = "
      "{9223372036854775807}, int64 stop = {";
  const std::string tail =
      "}> { y = Loop (many, , x) <body = b (int64 i, bool go, int64 s) => "
      "(bool next, int64 t) { t = Add(s, one) next = Less(t, stop) }> }";
  const auto y = RunLowering({.graph = head + "5" + tail,
                              .inputs = {{"x", Ints({}, {0})}},
                              .bound = {"x"}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(5));
  const auto endless = RunLowering({.graph = head + "1000000000" + tail,
                                    .inputs = {{"x", Ints({}, {0})}},
                                    .bound = {"x"}});
  EXPECT_THAT(std::string(endless.status().message()),
              HasSubstr("more than 10000 iterations"));
}

TEST(ControlFlowTest, AHugeTripCountIsRefusedQuickly) {
  const auto y = RunLowering(
      {.graph = kLoop,
       .inputs = {{"x", Floats({2}, {1, 3})}, {"n", Ints({}, {0x1p62})}},
       .bound = {"n"}});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

// Running sums of the rows of x.
std::string Scan(const std::string& attributes) {
  return "(float[2] start, float[3, 2] x) => (float[2] y, float[3, 2] all) {"
         "y, all = Scan (start, x) <num_scan_inputs = 1, " +
         attributes +
         "body = b (float[2] s, float[2] r) => (float[2] t, float[2] row) "
         "{ t = Add(s, r) row = Identity(t) }> }";
}

TEST(ControlFlowTest, AScanIsUnrolled) {
  const std::map<std::string, HostTensor> inputs = {
      {"start", Floats({2}, {0, 0})},
      {"x", Floats({3, 2}, {1, 2, 3, 4, 5, 6})}};
  const auto y = RunLowering({.graph = Scan(""), .inputs = inputs});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(9, 12));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(1, 2, 4, 6, 9, 12));
  const auto reversed =
      RunLowering({.graph = Scan("scan_input_directions = [1], "
                                 "scan_output_directions = [1], "),
                   .inputs = inputs});
  ASSERT_TRUE(reversed.ok()) << reversed.status();
  EXPECT_THAT((*reversed)[1].numbers, ElementsAre(9, 12, 8, 10, 5, 6));
}

TEST(ControlFlowTest, ABodyWithOtherInputsIsRefused) {
  const auto y = ImportLowering(
      {.graph = "(float[3, 2] x) => (float[3, 2] all) {"
                "all = Scan (x) <num_scan_inputs = 5, body = b (float[2] r) => "
                "(float[2] row) { row = Identity(r) }> }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
