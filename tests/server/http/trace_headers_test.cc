#include "server/http/trace_headers.h"

#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

TEST(MayBeMetadataTest, TakesPrintableAscii) {
  EXPECT_TRUE(MayBeMetadata("vendor=1, other=a b"));
  EXPECT_TRUE(MayBeMetadata(std::string(512, 'x')));
}

TEST(MayBeMetadataTest, RefusesWhatGrpcWouldNotSend) {
  EXPECT_FALSE(MayBeMetadata(""));
  EXPECT_FALSE(MayBeMetadata(std::string(513, 'x')));
  EXPECT_FALSE(MayBeMetadata("a\nb"));
  EXPECT_FALSE(MayBeMetadata("a\x7f"));
  EXPECT_FALSE(MayBeMetadata("caf\xc3\xa9"));
  EXPECT_FALSE(MayBeMetadata(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace gpupool::server
