#include "client/cli/models/served_sizes.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ServedSizesTest, DimensionsAreOneSizeARangeOrAList) {
  v1::OnnxModel onnx;
  ASSERT_TRUE(
      SetSizes({.dimensions = {"a=128", "b=1:512", "c=64,128"}}, onnx).ok());
  EXPECT_EQ(onnx.dimensions().at("a"), 128);
  EXPECT_EQ(onnx.dimensions().size(), 1u);
  EXPECT_EQ(onnx.served_dimensions().at("b").minimum(), 1);
  EXPECT_EQ(onnx.served_dimensions().at("b").maximum(), 512);
  EXPECT_THAT(onnx.served_dimensions().at("c").sizes(), ElementsAre(64, 128));
}

TEST(ServedSizesTest, NumbersAreReadForInputs) {
  v1::OnnxModel onnx;
  ASSERT_TRUE(SetSizes({.padding = {"ids=0", "bias=-inf"},
                        .bound = {"shape=4,-1", "scale=0.5"}},
                       onnx)
                  .ok());
  EXPECT_EQ(onnx.padding().at("ids"), 0);
  EXPECT_EQ(onnx.padding().at("bias"), -INFINITY);
  EXPECT_THAT(onnx.bound_inputs().at("shape").numbers(), ElementsAre(4, -1));
  EXPECT_THAT(onnx.bound_inputs().at("scale").numbers(), ElementsAre(0.5));
}

TEST(ServedSizesTest, WhatCannotBeReadNamesItsOption) {
  v1::OnnxModel onnx;
  for (const char* text :
       {"a", "=4", "a=", "a=x", "a=1:", "a=1:2:3", "a=1,x", "a=1-4"}) {
    EXPECT_THAT(SetSizes({.dimensions = {text}}, onnx).message(),
                HasSubstr("--dimension"))
        << text;
  }
  EXPECT_THAT(SetSizes({.padding = {"ids=x"}}, onnx).message(),
              HasSubstr("--pad ids=x"));
  EXPECT_THAT(SetSizes({.bound = {"shape=1,"}}, onnx).message(),
              HasSubstr("--bound shape=1,"));
}

}  // namespace
}  // namespace gpupool::client
