#include "engine/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

const Device kCpu0{DeviceType::kCpu, 0};
const Device kCpu1{DeviceType::kCpu, 1};
const Device kMeta{DeviceType::kMeta, 0};

Tensor Floats(const Device& device, std::vector<float> values) {
  return *Tensor::Copy(
      device, DType::kFloat32, {static_cast<int64_t>(values.size())},
      absl::MakeSpan(reinterpret_cast<const std::byte*>(values.data()),
                     values.size() * sizeof(float)));
}

float FirstOf(const Tensor& tensor) {
  float value = 0;
  std::memcpy(&value, tensor.data()->data(), sizeof(value));
  return value;
}

TEST(TensorTest, ZerosAreAlignedZeros) {
  auto tensor = Tensor::Zeros(kCpu0, DType::kInt64, {3});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes(), 24u);
  const auto contents = tensor->data();
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(contents->data()) % 64, 0u);
  for (std::byte b : *contents) EXPECT_EQ(b, std::byte{0});
}

TEST(TensorTest, TheSameDeviceGivesTheSameTensor) {
  const Tensor a = Floats(kCpu0, {1, 2});
  EXPECT_TRUE(a.To(kCpu0)->Shares(a));
}

TEST(TensorTest, AnotherDeviceGivesACopyAndLeavesTheSource) {
  const Tensor a = Floats(kCpu0, {1, 2});
  const Tensor b = *a.To(kCpu1);
  EXPECT_FALSE(b.Shares(a));
  EXPECT_EQ(b.device(), kCpu1);
  (*b.data())[3] = std::byte{0};
  EXPECT_EQ(FirstOf(a), 1);
}

TEST(TensorTest, MetaHasShapeAndTypeButNoValues) {
  const Tensor big = *Tensor::Zeros(kMeta, DType::kFloat32, {int64_t{1} << 40});
  EXPECT_EQ(big.bytes(), 0u);
  EXPECT_EQ(big.data().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(big.To(kCpu0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Floats(kCpu0, {1}).To(kMeta).ok());
}

TEST(TensorTest, DevicesWithoutABackEndAreRefusedByName) {
  for (DeviceType type : {DeviceType::kMps, DeviceType::kCuda}) {
    const auto tensor = Tensor::Zeros({type, 0}, DType::kFloat32, {1});
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(tensor.status().message(), HasSubstr("no back end"));
  }
}

TEST(TensorTest, RefusesAWrongByteCount) {
  const std::byte bytes[3] = {};
  EXPECT_THAT(
      Tensor::Copy(kCpu0, DType::kFloat32, {1}, bytes).status().message(),
      HasSubstr("3 bytes"));
}

TEST(TensorTest, DescribesItself) {
  EXPECT_EQ(Floats(kCpu0, {1, 2}).Describe("weight"),
            "weight: float32 [2] on cpu:0, 8 bytes");
}

}  // namespace
}  // namespace gpupool::engine
