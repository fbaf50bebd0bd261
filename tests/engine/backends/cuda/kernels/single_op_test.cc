#include "engine/backends/cuda/kernels/single_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine::cuda {
namespace {

using ::testing::ElementsAre;

Value Floats(const Shape& shape, Layout layout = Layout::kRowMajor) {
  Value value;
  value.shape = shape;
  value.layout = layout;
  return value;
}

std::byte* Bytes(std::vector<float>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

TEST(EpilogueTest, AddsBiasAndResidualBeforeTheActivationInPlace) {
  Epilogue epilogue;
  epilogue.bias = epilogue.residual = true;
  epilogue.activation = Activation::kRelu;
  auto kernel = MakeEpilogue(epilogue, Floats({2, 3}), {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> y = {1, 2, 3, -4, -5, -6}, bias = {10, 20, -30};
  std::vector<float> residual = {0, 0, 0, 1, -100, 50};
  ASSERT_TRUE((*kernel)
                  ->Bind({{Bytes(y), Bytes(bias), Bytes(residual)}, {Bytes(y)}})
                  .ok());
  ASSERT_TRUE((*kernel)->Run().ok());
  EXPECT_THAT(y, ElementsAre(11, 22, 0, 7, 0, 14));
}

TEST(EpilogueTest, TheBiasOfAnImageIsPerChannelInEitherLayout) {
  Epilogue epilogue;
  epilogue.bias = true;
  std::vector<float> bias = {10, 20};
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    auto kernel = MakeEpilogue(epilogue, Floats({1, 2, 1, 2}, layout), {});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<float> y = {1, 2, 3, 4};
    ASSERT_TRUE((*kernel)->Bind({{Bytes(y), Bytes(bias)}, {Bytes(y)}}).ok());
    ASSERT_TRUE((*kernel)->Run().ok());
    if (layout == Layout::kRowMajor) {
      EXPECT_THAT(y, ElementsAre(11, 12, 23, 24));
    } else {
      EXPECT_THAT(y, ElementsAre(11, 22, 13, 24));
    }
  }
}

TEST(EpilogueTest, AVolumeHasABiasToo) {
  Epilogue epilogue;
  epilogue.bias = true;
  auto kernel = MakeEpilogue(epilogue, Floats({1, 2, 1, 1, 1}), {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> y = {1, 2}, bias = {10, 20};
  ASSERT_TRUE((*kernel)->Bind({{Bytes(y), Bytes(bias)}, {Bytes(y)}}).ok());
  ASSERT_TRUE((*kernel)->Run().ok());
  EXPECT_THAT(y, ElementsAre(11, 22));
}

TEST(EpilogueTest, EveryActivationHasAKernel) {
  for (const Activation activation :
       {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
        Activation::kSigmoid, Activation::kTanh, Activation::kUnary}) {
    Epilogue epilogue;
    epilogue.activation = activation;
    epilogue.unary.function = UnaryFunction::kAbs;
    auto kernel = MakeEpilogue(epilogue, Floats({2, 3}), {});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_NE(*kernel, nullptr);
  }
}

TEST(EpilogueTest, NothingToDoIsNoKernel) {
  auto kernel = MakeEpilogue({}, Floats({2, 3}), {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(*kernel, nullptr);
}

}  // namespace
}  // namespace gpupool::engine::cuda
