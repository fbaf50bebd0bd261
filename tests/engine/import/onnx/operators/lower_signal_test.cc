#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

MATCHER(IsNear, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-6;
}

struct Dft {
  HostTensor x;
  std::string attributes;
  int64_t length = 0;  // 0: that of the signal
};

std::vector<double> Transformed(const Dft& dft) {
  const std::string dims = dft.x.shape.ToString();
  const std::string length =
      "l = Constant<value_int = " + std::to_string(dft.length) + ">() ";
  const auto y = RunLowering(
      {.opset = 20,
       .graph = "(float" + dims + " x) => (float[a, b, c] y) { " +
                (dft.length == 0 ? "" : length) + "y = DFT" + dft.attributes +
                (dft.length == 0 ? "(x)" : "(x, l)") + " }",
       .inputs = {{"x", dft.x}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

const HostTensor kSignal = Floats({1, 4, 1}, {1, 2, 0, -1});
// The transform of the signal, as pairs of real and imaginary part.
const std::vector<double> kSpectrum = {2, 0, 1, -3, 0, 0, 1, 3};

TEST(LowerSignalTest, ASpectrumIsTheSumsOfWaves) {
  EXPECT_THAT(Transformed({kSignal, ""}), Pointwise(IsNear(), kSpectrum));
  EXPECT_THAT(Transformed({kSignal, "<onesided = 1>"}),
              Pointwise(IsNear(), {2.0, 0.0, 1.0, -3.0, 0.0, 0.0}));
}

TEST(LowerSignalTest, TheInverseGivesTheSignalBack) {
  EXPECT_THAT(Transformed({Floats({1, 4, 2}, kSpectrum), "<inverse = 1>"}),
              Pointwise(IsNear(), {1.0, 0.0, 2.0, 0.0, 0.0, 0.0, -1.0, 0.0}));
  EXPECT_THAT(Transformed({Floats({1, 3, 2}, {2, 0, 1, -3, 0, 0}),
                           "<inverse = 1, onesided = 1>"}),
              Pointwise(IsNear(), {1.0, 2.0, 0.0, -1.0}));
}

// An odd signal has no number in the middle of its spectrum.
TEST(LowerSignalTest, OddSignalsGoBothWays) {
  const std::vector<double> spectrum =
      Transformed({Floats({1, 3, 1}, {1, 2, 4}), "<onesided = 1>"});
  ASSERT_EQ(spectrum.size(), 4u);
  EXPECT_THAT(Transformed({Floats({1, 2, 2}, spectrum),
                           "<inverse = 1, onesided = 1>", 3}),
              Pointwise(IsNear(), {1.0, 2.0, 4.0}));
}

TEST(LowerSignalTest, TheLengthCutsOrPadsTheSignal) {
  EXPECT_THAT(Transformed({kSignal, "", 1}), Pointwise(IsNear(), {1.0, 0.0}));
  EXPECT_THAT(Transformed({Floats({1, 1, 1}, {3}), "", 2}),
              Pointwise(IsNear(), {3.0, 0.0, 3.0, 0.0}));
}

TEST(LowerSignalTest, AOnesidedSpectrumOfComplexNumbersIsRefused) {
  const auto y =
      ImportLowering({.opset = 20,
                      .graph = "(float[1, 4, 2] x) => (float[1, 3, 2] y) "
                               "{ y = DFT<onesided = 1>(x) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("onesided"));
}

TEST(LowerSignalTest, FramesAreWindowedAndTransformed) {
  const auto y =
      RunLowering({.opset = 17,
                   .graph = "(float[1, 5, 1] x) => (float[1, 2, 2, 2] y) "
                            "{ s = Constant<value_int = 2>() "
                            "w = Constant<value = float[2] {1.0, 10.0}>() "
                            "y = STFT(x, s, w) }",
                   .inputs = {{"x", Floats({1, 5, 1}, {1, 2, 3, 4, 5})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, Pointwise(IsNear(), {21.0, 0.0, -19.0, 0.0, 43.0,
                                                    0.0, -37.0, 0.0}));
}

TEST(LowerSignalTest, FramesLongerThanTheSignalAreRefused) {
  const auto y = ImportLowering(
      {.opset = 17,
       .graph = "(float[1, 5, 1] x) => (float[1, 2, 2, 2] y) "
                "{ s = Constant<value_int = 2>() "
                "l = Constant<value_int = 6>() y = STFT(x, s, , l) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("do not fit"));
}

LoweringCase Mel(int bands, double high) {
  return {.opset = 17,
          .graph = "() => (float[17, N] y) { b = Constant<value_int = " +
                   std::to_string(bands) +
                   ">() l = Constant<value_int = 32>() r = Constant<value_int "
                   "= 8192>() low = Constant<value_float = 0.0>() high = "
                   "Constant<value_float = " +
                   std::to_string(high) +
                   ">() y = MelWeightMatrix(b, l, r, low, high) }"};
}

TEST(LowerSignalTest, TrianglesOfTheMelScalePeakAtOne) {
  const auto y = RunLowering(Mel(3, 4096));
  ASSERT_TRUE(y.ok()) << y.status();
  for (size_t band = 0; band < 3; ++band) {
    double peak = 0;
    for (size_t bin = 0; bin < 17; ++bin) {
      peak = std::max(peak, (*y)[0].numbers[bin * 3 + band]);
    }
    EXPECT_THAT(peak, DoubleNear(1, 1e-9));
  }
}

TEST(LowerSignalTest, BandsBeyondTheSpectrumAreRefused) {
  EXPECT_THAT(std::string(ImportLowering(Mel(3, 1e6)).status().message()),
              HasSubstr("outside of the spectrum"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
