#include "server/store/page.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace gpupool::server {
namespace {

TEST(PageTest, SizeHasADefaultAndACeiling) {
  EXPECT_EQ(*PageSize(0), 100);
  EXPECT_EQ(*PageSize(7), 7);
  EXPECT_EQ(*PageSize(5000), 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(PageSize(-1).status()));
}

TEST(PageTest, TokenRoundTripsWithinItsKind) {
  EXPECT_EQ(*ParsePageToken('m', MakePageToken('m', "digits")), "digits");
  EXPECT_FALSE(ParsePageToken('d', MakePageToken('m', "digits")).ok());
  EXPECT_EQ(*ParseIdToken('j', MakePageToken('j', "12")), 12);
}

TEST(PageTest, EmptyTokenIsTheFirstPage) {
  EXPECT_EQ(*ParsePageToken('m', ""), "");
  EXPECT_EQ(*ParseIdToken('j', ""), INT64_MAX);
}

TEST(PageTest, IdTokenMustBeAPositiveNumber) {
  for (const char* token : {"j0", "j-4", "jx", "j99999999999999999999"}) {
    EXPECT_FALSE(ParseIdToken('j', token).ok()) << token;
  }
}

}  // namespace
}  // namespace gpupool::server
