#include "server/api/inference/region_calls.h"

#include "gtest/gtest.h"
#include "tests/server/serving/regions/region_files.h"

namespace gpupool::server {
namespace {

class RegionCallsTest : public ::testing::Test {
 protected:
  RegionCallsTest() { files_.Put("/a", "0123456789"); }

  absl::Status Register(const std::string& name) {
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key("/a");
    request.set_offset(2);
    request.set_byte_size(8);
    return RegisterRegion(request, local_, &book_);
  }

  RegionFiles files_;
  const RegionCaller local_{.tenant = "lab", .user = 1000};
  RegionBook book_{{}, files_.folder()};
  inference::SystemSharedMemoryStatusRequest request_;
  inference::SystemSharedMemoryStatusResponse response_;
};

TEST_F(RegionCallsTest, TheStatusHasWhatWasRegistered) {
  ASSERT_TRUE(FillRegions(request_, local_, book_, &response_).ok());
  EXPECT_TRUE(response_.regions().empty());
  ASSERT_TRUE(Register("r").ok());
  ASSERT_TRUE(Register("s").ok());
  ASSERT_TRUE(FillRegions(request_, local_, book_, &response_).ok());
  EXPECT_EQ(response_.regions_size(), 2);
  const auto& region = response_.regions().at("r");
  EXPECT_EQ(region.name(), "r");
  EXPECT_EQ(region.key(), "/a");
  EXPECT_EQ(region.offset(), 2u);
  EXPECT_EQ(region.byte_size(), 8u);
}

TEST_F(RegionCallsTest, ANameSelectsOneRegion) {
  ASSERT_TRUE(Register("r").ok());
  ASSERT_TRUE(Register("s").ok());
  request_.set_name("s");
  ASSERT_TRUE(FillRegions(request_, local_, book_, &response_).ok());
  EXPECT_EQ(response_.regions_size(), 1);
  request_.set_name("t");
  EXPECT_TRUE(
      absl::IsNotFound(FillRegions(request_, local_, book_, &response_)));
}

TEST_F(RegionCallsTest, ThereAreNoRegionsOfCuda) {
  EXPECT_TRUE(NoCudaRegion("").ok());
  EXPECT_TRUE(absl::IsNotFound(NoCudaRegion("r")));
}

}  // namespace
}  // namespace gpupool::server
