#include "client/files/row_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;

TEST(SelectRowsTest, All) {
  EXPECT_THAT(*SelectRows("all", 3), ElementsAre(0, 1, 2));
}

TEST(SelectRowsTest, EveryTakesTheLastOfEachGroup) {
  EXPECT_THAT(*SelectRows("every:5", 17), ElementsAre(4, 9, 14));
  EXPECT_THAT(*SelectRows("every:3", 3), ElementsAre(2));
}

TEST(SelectRowsTest, LastAndSlices) {
  EXPECT_THAT(*SelectRows("last:2", 5), ElementsAre(3, 4));
  EXPECT_THAT(*SelectRows("1:3", 5), ElementsAre(1, 2));
  EXPECT_THAT(*SelectRows("3:", 5), ElementsAre(3, 4));
  EXPECT_THAT(*SelectRows(":2", 5), ElementsAre(0, 1));
}

TEST(SelectRowsTest, RefusesSelectionsWithoutRowsAndNonsense) {
  for (const char* text :
       {"every:1", "every:6", "every:0", "every:x", "last:0", "last:6", "2:2",
        "3:2", "0:6", "some", "", "1:2:3", "-1:2"}) {
    EXPECT_EQ(SelectRows(text, 5).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(HeldOutRowsTest, FollowsTheJobsRule) {
  v1::HeldOut rule;
  rule.set_every(5);
  EXPECT_THAT(*HeldOutRows(rule, 10), ElementsAre(4, 9));
  rule.set_last(1);
  EXPECT_THAT(*HeldOutRows(rule, 10), ElementsAre(9));
}

TEST(HeldOutRowsTest, RefusesWhatOnlyTheServerKnows) {
  v1::HeldOut rule;
  EXPECT_EQ(HeldOutRows(rule, 10).status().code(),
            absl::StatusCode::kFailedPrecondition);
  rule.mutable_fraction()->set_fraction(0.5);
  EXPECT_EQ(HeldOutRows(rule, 10).status().code(),
            absl::StatusCode::kFailedPrecondition);
  rule.mutable_fold()->set_of(5);
  EXPECT_THAT(HeldOutRows(rule, 10).status().message(),
              ::testing::HasSubstr("held_out.fold"));
}

}  // namespace
}  // namespace gpupool::client
