#include "client/files/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace gpupool::client {
namespace {

TEST(Crc32cTest, HasTheUsualCheckValue) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

// RFC 3720, B.4.
TEST(Crc32cTest, HasTheValuesOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string bytes(32, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  EXPECT_EQ(Crc32c(bytes), 0x46dd794eu);
  std::reverse(bytes.begin(), bytes.end());
  EXPECT_EQ(Crc32c(bytes), 0x113fdb5cu);
}

}  // namespace
}  // namespace gpupool::client
