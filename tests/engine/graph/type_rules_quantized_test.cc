#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TensorType Unsigned(const Shape& shape) { return {DType::kUint8, shape}; }
TensorType Signed(const Shape& shape) { return {DType::kInt8, shape}; }

const CodeRange kSigned{DType::kInt8, 3, -128, 127};

TEST(QuantizeTypeTest, NumbersBecomeCodesOfTheType) {
  EXPECT_EQ(Only(Op::kQuantize, QuantizeAttributes{0.5}, {F({2, 3})}),
            Unsigned({2, 3}));
  EXPECT_EQ(Only(Op::kQuantize, QuantizeAttributes{0.5, kSigned}, {F({2, 3})}),
            Signed({2, 3}));
  EXPECT_EQ(Only(Op::kDequantize, DequantizeAttributes{0.5, -7}, {Signed({2})}),
            F({2}));
}

TEST(QuantizeTypeTest, RefusesWhatIsNoScaleOrCode) {
  for (const double scale : {0.0, -1.0, std::nan(""), HUGE_VAL, 1e-40}) {
    EXPECT_THAT(Error(Op::kQuantize, QuantizeAttributes{scale}, {F({2})}),
                HasSubstr("must be positive and finite"))
        << scale;
  }
  EXPECT_THAT(Error(Op::kQuantize, QuantizeAttributes{1}, {I64({2})}),
              HasSubstr("float32"));
  EXPECT_THAT(
      Error(Op::kQuantize, QuantizeAttributes{1, {DType::kInt64, 0, 0, 255}},
            {F({2})}),
      HasSubstr("codes are uint8 or int8, not int64"));
  EXPECT_THAT(
      Error(Op::kQuantize, QuantizeAttributes{1, {DType::kUint8, -1, 0, 255}},
            {F({2})}),
      HasSubstr("the zero point -1 must be from 0 to 255"));
  EXPECT_THAT(Error(Op::kQuantize,
                    QuantizeAttributes{1, {DType::kInt8, 0, 5, 4}}, {F({2})}),
              HasSubstr("codes from 5 to 4"));
  EXPECT_THAT(
      Error(Op::kDequantize, DequantizeAttributes{1, 200}, {Signed({2})}),
      HasSubstr("the zero point 200"));
  EXPECT_THAT(Error(Op::kDequantize, DequantizeAttributes{}, {F({2})}),
              HasSubstr("codes are uint8 or int8"));
}

TEST(QuantizedAddTypeTest, CodesMayHaveTwoTypesButOneShape) {
  const QuantizedAddAttributes add{{0.5, 200}, {0.25, -3}, {1, kSigned}};
  EXPECT_EQ(Only(Op::kQuantizedAdd, add, {Unsigned({2, 3}), Signed({2, 3})}),
            Signed({2, 3}));
  EXPECT_THAT(Error(Op::kQuantizedAdd, add, {Unsigned({2, 3}), Signed({3})}),
              HasSubstr("differ in shape"));
}

TEST(QuantizedConvTypeTest, GivesTheShapeOfTheConvolution) {
  QuantizedConv2dAttributes conv{.x_zero = 128, .codes = kSigned};
  conv.conv.stride = {2, 2};
  conv.conv.padding = {1, 1};
  EXPECT_EQ(
      Only(Op::kQuantizedConv2d, conv,
           {Unsigned({2, 4, 9, 7}), Signed({5, 4, 3, 3}), F({5}), F({5})}),
      Signed({2, 5, 5, 4}));
}

TEST(QuantizedConvTypeTest, RefusesWhatDoesNotFit) {
  const QuantizedConv2dAttributes conv;
  const TensorTypes good{Unsigned({1, 4, 3, 3}), Signed({5, 4, 3, 3}), F({5}),
                         F({5})};
  EXPECT_EQ(Only(Op::kQuantizedConv2d, conv, good), Unsigned({1, 5, 1, 1}));
  EXPECT_THAT(Error(Op::kQuantizedConv2d, conv,
                    {good[0], Unsigned({5, 4, 3, 3}), good[2], good[3]}),
              HasSubstr("weights are int8"));
  EXPECT_THAT(
      Error(Op::kQuantizedConv2d, conv, {good[0], good[1], F({4}), good[3]}),
      HasSubstr("factor"));
  EXPECT_THAT(
      Error(Op::kQuantizedConv2d, conv, {good[0], good[1], good[2], F({1})}),
      HasSubstr("shift"));
  QuantizedConv2dAttributes changed = conv;
  changed.conv.epilogue.activation = Activation::kRelu;
  EXPECT_THAT(Error(Op::kQuantizedConv2d, changed, good),
              HasSubstr("no epilogue"));
  changed = conv;
  changed.x_zero = -1;
  EXPECT_THAT(Error(Op::kQuantizedConv2d, changed, good),
              HasSubstr("the zero point -1"));
}

TEST(QuantizedConvTypeTest, RefusesSumsThatCouldOverflow) {
  const QuantizedConv2dAttributes conv;
  const auto operands = [](int64_t channels) {
    return TensorTypes{Unsigned({1, channels, 1, 1}),
                       Signed({1, channels, 1, 1}), F({1}), F({1})};
  };
  EXPECT_EQ(Only(Op::kQuantizedConv2d, conv, operands(kMaxCodeProducts)),
            Unsigned({1, 1, 1, 1}));
  EXPECT_THAT(Error(Op::kQuantizedConv2d, conv, operands(kMaxCodeProducts + 1)),
              HasSubstr("sums of 65537 products are over the limit of 65536"));
}

}  // namespace
}  // namespace gpupool::engine
