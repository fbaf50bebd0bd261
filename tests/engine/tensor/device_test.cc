#include "engine/tensor/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(DeviceTest, ReadsWhatItWrites) {
  for (const char* text :
       {"cpu:0", "cpu:7", "cuda:0", "cuda:1023", "mps", "meta"}) {
    auto device = ParseDevice(text);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(ToString(*device), text);
  }
}

TEST(DeviceTest, AKindAloneMeansIndexZero) {
  EXPECT_EQ(*ParseDevice("cuda"), (Device{DeviceType::kCuda, 0}));
  EXPECT_EQ(*ParseDevice("cpu"), Device{});
}

TEST(DeviceTest, RefusesEverythingElseAndQuotesIt) {
  for (const char* text :
       {"", ":", "cpu:", "cpu:-1", "cpu:+1", "cpu: 1", "cpu:1024", "cpu:1x",
        "CPU", "gpu:0", "meta:0", "mps:1", "cpu:0:1", "cuda:99999999999"}) {
    const absl::Status status = ParseDevice(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), ::testing::HasSubstr(text));
  }
}

}  // namespace
}  // namespace gpupool::engine
