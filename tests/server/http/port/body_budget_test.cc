#include "server/http/port/body_budget.h"

#include <limits>
#include <utility>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(BodyBudgetTest, BodiesFitUpToTheLimit) {
  BodyBudget budget(10);
  EXPECT_FALSE(budget.Take(11).has_value());
  EXPECT_FALSE(budget.Take(std::numeric_limits<uint64_t>::max()).has_value());
  const auto first = budget.Take(6);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(budget.Take(5).has_value());
  const auto second = budget.Take(4);
  EXPECT_TRUE(second.has_value());
  EXPECT_TRUE(budget.Take(0).has_value());
}

TEST(BodyBudgetTest, APlaceGrowsWhileThereIsRoom) {
  BodyBudget budget(10);
  {
    auto place = budget.Take(2);
    ASSERT_TRUE(place.has_value());
    EXPECT_TRUE(place->GrowTo(6));
    EXPECT_TRUE(place->GrowTo(3)) << "it is larger already";
    EXPECT_FALSE(place->GrowTo(11));
    EXPECT_FALSE(budget.Take(5).has_value());
    EXPECT_TRUE(budget.Take(4).has_value());
    EXPECT_TRUE(place->GrowTo(10));
  }
  EXPECT_TRUE(budget.Take(10).has_value());
}

TEST(BodyBudgetTest, APlaceGivesItsBytesBackOnce) {
  BodyBudget budget(10);
  {
    auto place = budget.Take(10);
    ASSERT_TRUE(place.has_value());
    const BodyBudget::Place moved = *std::move(place);
    place.reset();
    EXPECT_FALSE(budget.Take(1).has_value());
  }
  EXPECT_TRUE(budget.Take(10).has_value());
}

}  // namespace
}  // namespace gpupool::server
