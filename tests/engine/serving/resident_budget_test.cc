#include "engine/serving/resident_budget.h"

#include "engine/base/align.h"
#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

SizedBytes Planned(std::vector<int64_t> sizes,
                   std::vector<ResidentItem> residents) {
  SizedBytes planned{.sizes = std::move(sizes)};
  planned.bytes.residents = std::move(residents);
  return planned;
}

TEST(ResidentBudgetTest, WhatSizesShareCountsOnce) {
  const std::vector<SizedBytes> planned = {
      Planned({8}, {{"packed w", 1024}, {"constant a", 128}}),
      Planned({4}, {{"packed w", 1024}, {"constant b", 64}})};
  EXPECT_EQ(ResidentBudget(planned, 5), 1024 + 5 * AlignUp(128));
}

TEST(ResidentBudgetTest, ItemsWithoutAKeyAreNeverShared) {
  const std::vector<SizedBytes> planned = {Planned({8}, {{"", 256}, {"", 256}}),
                                           Planned({4}, {{"", 256}})};
  EXPECT_EQ(ResidentBudget(planned, 3), 3 * 512u);
}

TEST(ResidentBudgetTest, OfOneSizeOnlyConstantsAreTakenAsItsOwn) {
  const std::vector<SizedBytes> planned = {
      Planned({}, {{"packed w", 1024}, {"constant a", 128}}),
      Planned({}, {{"packed w", 1024}, {"constant a", 128}})};
  EXPECT_EQ(ResidentBudget(planned, 2), 1024 + 2 * AlignUp(128));
}

// Any programs that are kept at the same time fit: the sum over any `count` of
// the planned programs is within the budget.
TEST(ResidentBudgetTest, ThePlannedProgramsFit) {
  const std::vector<SizedBytes> planned = {
      Planned({8}, {{"packed w", 1000}, {"a", 128}, {"", 640}}),
      Planned({4}, {{"packed w", 1000}, {"b", 320}}),
      Planned({2}, {{"packed v", 700}, {"c", 64}})};
  std::vector<ProgramBytes> all;
  for (const SizedBytes& program : planned) all.push_back(program.bytes);
  EXPECT_GE(ResidentBudget(planned, all.size()), ResidentBytes(all));
}

}  // namespace
}  // namespace gpupool::engine
