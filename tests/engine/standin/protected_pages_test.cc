#include "tests/engine/standin/protected_pages.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gpupool::engine::standin {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{64} << 20;

class ProtectedPagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    begin_ = *pages_.ReserveRange(kRangeBytes);
    at_ = {begin_ + pages_.granularity(), pages_.granularity()};
    ASSERT_TRUE(pages_.Map(at_, *pages_.CreateChunk(at_.bytes)).ok());
    address_ = reinterpret_cast<std::byte*>(at_.address);
  }
  void TearDown() override {
    ASSERT_TRUE(pages_.Unmap(at_).ok());
    ASSERT_TRUE(pages_.FreeRange({begin_, kRangeBytes}).ok());
  }

  ProtectedPages pages_;
  uint64_t begin_ = 0;
  PageRange at_;
  std::byte* address_ = nullptr;
};

TEST_F(ProtectedPagesTest, TheTwinIsMemory) {
  std::byte* const real = pages_.Real(address_ + 100);
  EXPECT_NE(real, address_ + 100);
  std::memset(real, 7, 1000);
  EXPECT_EQ(pages_.Real(address_ + 1099)[0], std::byte{7});
  EXPECT_EQ(pages_.Real(nullptr), nullptr);
}

using ProtectedPagesDeathTest = ProtectedPagesTest;

TEST_F(ProtectedPagesDeathTest, TheEnginesAddressesCannotBeTouched) {
  EXPECT_DEATH(*reinterpret_cast<volatile std::byte*>(address_) = std::byte{1},
               "");
  EXPECT_DEATH((void)*const_cast<volatile std::byte*>(address_), "");
}

TEST_F(ProtectedPagesDeathTest, AddressesOfOthersAreRefused) {
  std::byte own{};
  EXPECT_DEATH(pages_.Real(&own), "check failed");
}

}  // namespace
}  // namespace gpupool::engine::standin
