#include "engine/backends/portable/launch/device_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/backends/portable/launch/errors.h"

namespace gpupool::engine::portable {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(DeviceStatusTest, NamesTheLayerTheNumberAndItsLimit) {
  EXPECT_TRUE(StatusOf({}, Op::kGather, "embedding").ok());
  const absl::Status index =
      StatusOf({kIndexOutside, 0, 70, 64}, Op::kGather, "embedding");
  EXPECT_EQ(index.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(index), HasSubstr("'embedding': index 70"));
  EXPECT_THAT(Message(index), HasSubstr("-64 .. 63"));
  const absl::Status label =
      StatusOf({kLabelOutside, 0, -1, 10}, Op::kCrossEntropy, "loss");
  EXPECT_EQ(label.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(label), HasSubstr("label -1 lies outside 0 .. 9"));
  EXPECT_EQ(StatusOf({99, 0, 0, 0}, Op::kAdd, "sum").code(),
            absl::StatusCode::kInternal);
}

TEST(DeviceStatusTest, TheFirstErrorStays) {
  DeviceError error;
  const ErrorPlace place{&error, 7};
  EXPECT_EQ(ResolveIndex(place, -2, 5), 3);
  EXPECT_EQ(error.code, kNoDeviceError);
  EXPECT_EQ(ResolveIndex(place, 5, 5), -1);
  EXPECT_EQ(ResolveIndex(place, -6, 5), -1);
  EXPECT_EQ(error.code, kIndexOutside);
  EXPECT_EQ(error.node, 7);
  EXPECT_EQ(error.value, 5);
  EXPECT_EQ(error.limit, 5);
  EXPECT_EQ(ResolveIndex({}, 5, 5), -1);  // no status to report to
}

}  // namespace
}  // namespace gpupool::engine::portable
