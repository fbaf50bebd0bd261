// Cases that the random cases of all back ends do not reach: channels that are
// cut into parts, numbers far from 0, and the variances of libraries.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/backends/portable/reduction/norm_makers.h"
#include "tests/engine/backends/portable/compare.h"

namespace gpupool::engine::testing {
namespace {

struct Images {
  Shape shape;
  bool channels_last;
};

constexpr double kFar = 300;  // mean of numbers with a deviation of 1

void PrintTo(const Images& images, std::ostream* out) {
  *out << images.shape.ToString() << (images.channels_last ? " last" : "");
}

class LongChannelsTest : public ::testing::TestWithParam<Images> {};

TEST_P(LongChannelsTest, TrainingInParts) {
  OpCase at(3);
  const Shape x = GetParam().shape, c{x[1]};
  at.Emit(Op::kBatchNormTraining,
          {at.Floats(x, kFar - 1, kFar + 1), at.Weights(c), at.Weights(c)},
          NormAttributes{});
  if (GetParam().channels_last) at.UseChannelsLast();
  ExpectAgreement(at, 1e-4);
}

TEST_P(LongChannelsTest, TheGradientInParts) {
  OpCase at(4);
  const Shape x = GetParam().shape, c{x[1]};
  at.Emit(Op::kBatchNormTrainingGrad,
          {at.Floats(x), at.Floats(x), at.Weights(c), at.Floats(c, -0.1, 0.1),
           at.Floats(c, 0.9, 1.5)},
          NormAttributes{});
  if (GetParam().channels_last) at.UseChannelsLast();
  ExpectAgreement(at, 1e-5);
}

// The sum that is a convolution's bias gradient.
TEST_P(LongChannelsTest, SumsInParts) {
  OpCase at(5);
  at.Emit(Op::kReduce, {at.Floats(GetParam().shape)},
          ReduceAttributes{ReduceFunction::kSum, {0, 2, 3}, false});
  if (GetParam().channels_last) at.UseChannelsLast();
  ExpectAgreement(at, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LongChannelsTest,
                         ::testing::Values(Images{{16, 3, 40, 50}, false},
                                           Images{{16, 3, 40, 50}, true},
                                           Images{{20, 40, 17, 19}, false},
                                           Images{{20, 40, 17, 19}, true},
                                           Images{{5000, 7, 1, 1}, false},
                                           Images{{3000, 5, 2, 1}, false}));

TEST(LayerNormGradTest, ManyRowsInParts) {
  OpCase at(6);
  const Shape x{6000, 33}, rows{6000}, last{33};
  at.Emit(Op::kLayerNormGrad,
          {at.Floats(x), at.Floats(x), at.Weights(last),
           at.Floats(rows, -0.1, 0.1), at.Floats(rows, 0.9, 1.5)},
          NormAttributes{});
  ExpectAgreement(at, 1e-5);
}

TEST(SpreadTest, ThereAndBackIsTheVariance) {
  const float epsilon = 1e-5f;
  std::vector<float> numbers = {0, 1e-7f, 1e-3f, 1, 12345, NAN};
  const std::vector<float> before = numbers;
  const int64_t channels = static_cast<int64_t>(numbers.size());
  KernelBuffers buffers;
  buffers.inputs =
      buffers.outputs = {reinterpret_cast<std::byte*>(numbers.data())};
  const auto there = portable::MakeSpread({channels, epsilon, false}, {});
  ASSERT_TRUE(there->Bind(buffers).ok() && there->Run().ok());
  EXPECT_FLOAT_EQ(numbers[0], 1 / std::sqrt(epsilon));
  EXPECT_FLOAT_EQ(numbers[3], 1 / std::sqrt(1 + epsilon));
  const auto back = portable::MakeSpread({channels, epsilon, true}, {});
  ASSERT_TRUE(back->Bind(buffers).ok() && back->Run().ok());
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    EXPECT_NEAR(numbers[i], before[i], 3e-7 * (before[i] + epsilon));
    EXPECT_GE(numbers[i], 0);
  }
  EXPECT_TRUE(std::isnan(numbers.back()));
}

}  // namespace
}  // namespace gpupool::engine::testing
