#include "client/cli/models/served_sizes.h"

#include <cmath>
#include <fstream>
#include <string>

#include "client/files/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(ServedSizesTest, ADimensionMayFollowFromOthers) {
  v1::OnnxModel onnx;
  ASSERT_TRUE(SetSizes({.dimensions = {"total=past + sequence", "past=0:64",
                                       "half=_s//2", "same=past"}},
                       onnx)
                  .ok());
  EXPECT_EQ(onnx.derived_dimensions().at("total"), "past + sequence");
  EXPECT_EQ(onnx.derived_dimensions().at("half"), "_s//2");
  EXPECT_EQ(onnx.derived_dimensions().at("same"), "past");
  EXPECT_EQ(onnx.derived_dimensions().size(), 3u);
  EXPECT_EQ(onnx.served_dimensions().at("past").minimum(), 0);
  EXPECT_EQ(onnx.served_dimensions().at("past").maximum(), 64);
}

TEST(ServedSizesTest, BoundNumbersMayComeFromAFile) {
  const std::string path = ::testing::TempDir() + "/bound_numbers.npy";
  Tensor tensor{.data_type = "INT64", .shape = {1, 2}};
  const int64_t numbers[] = {70000, -3};
  tensor.bytes.assign(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  std::ofstream(path, std::ios::binary) << NpyText(tensor);
  v1::OnnxModel onnx;
  const absl::Status set = SetSizes({.bound = {"shape=" + path}}, onnx);
  ASSERT_TRUE(set.ok()) << set;
  EXPECT_THAT(onnx.bound_inputs().at("shape").numbers(),
              ElementsAre(70000, -3));
  EXPECT_THAT(SetSizes({.bound = {"shape=/missing.npy"}}, onnx).message(),
              HasSubstr("/missing.npy"));
}

TEST(ServedSizesTest, BoundNumbersAreFinite) {
  const std::string path = testing::TempDir() + "/no_numbers.npy";
  const auto text_for = [&](const std::vector<float>& numbers) {
    Tensor tensor{.data_type = "FP32",
                  .shape = {static_cast<int64_t>(numbers.size())}};
    tensor.bytes.assign(reinterpret_cast<const char*>(numbers.data()),
                        numbers.size() * sizeof(float));
    std::ofstream(path, std::ios::binary) << NpyText(tensor);
    v1::OnnxModel onnx;
    return std::string(SetSizes({.bound = {"shape=" + path}}, onnx).message());
  };
  EXPECT_THAT(text_for({}), HasSubstr("has no numbers"));
  EXPECT_THAT(text_for({1, NAN}), HasSubstr("has NaN or infinity"));
  EXPECT_THAT(text_for({INFINITY}), HasSubstr("has NaN or infinity"));
  EXPECT_EQ(text_for({1, 0.5f}), "");
}

TEST(ServedSizesTest, WhatCannotBeReadNamesItsOption) {
  v1::OnnxModel onnx;
  for (const char* text :
       {"a", "=4", "a=", "a=1:", "a=1:2:3", "a=1,x", "a=1-4", "a=x:4"}) {
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
