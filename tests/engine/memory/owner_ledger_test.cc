#include "engine/memory/owner_ledger.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(OwnerLedgerTest, AddsUpByHolderAndByUse) {
  OwnerLedger ledger;
  OwnerAccount* const weights = ledger.Account({"job 7", "weights"});
  OwnerAccount* const arena = ledger.Account({"job 7", "arena"});
  EXPECT_EQ(ledger.Account({"job 7", "weights"}), weights);
  OwnerLedger::Add(weights, 100);
  OwnerLedger::Add(arena, 300);
  OwnerLedger::Subtract(arena, 100);
  const OwnerHolder* const holder = ledger.Find("job 7");
  EXPECT_EQ(holder->bytes, 300u);
  EXPECT_EQ(holder->peak_bytes, 400u);
  const std::vector<OwnerUsage> usage = ledger.Usage();
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage[0].label, "job 7 / arena");
  EXPECT_EQ(usage[0].bytes, 200u);
}

TEST(OwnerLedgerTest, ListsNobodyWhoHasNothing) {
  OwnerLedger ledger;
  ledger.Account({"job 7", "weights"});
  EXPECT_TRUE(ledger.Usage().empty());
  EXPECT_TRUE(ledger.Holders().empty());
}

TEST(OwnerLedgerTest, LargestHolderComesFirstThenByName) {
  OwnerLedger ledger;
  OwnerLedger::Add(ledger.Account({"c", "x"}), 5);
  OwnerLedger::Add(ledger.Account({"b", "x"}), 5);
  OwnerLedger::Add(ledger.Account({"a", "x"}), 1);
  std::string names;
  for (const OwnerHolder& holder : ledger.Holders()) names += holder.name;
  EXPECT_EQ(names, "bca");
}

TEST(OwnerLedgerTest, LimitAllowsUpToItselfWithoutOverflow) {
  OwnerLedger ledger;
  OwnerAccount* const account = ledger.Account({"job 7", "weights"});
  OwnerLedger::Add(account, 60);
  EXPECT_TRUE(OwnerLedger::Allows(*account->holder, ~uint64_t{0}));
  EXPECT_FALSE(ledger.SetLimit("job 7", 59));
  ASSERT_TRUE(ledger.SetLimit("job 7", 100));
  EXPECT_TRUE(OwnerLedger::Allows(*account->holder, 40));
  EXPECT_FALSE(OwnerLedger::Allows(*account->holder, 41));
  EXPECT_FALSE(OwnerLedger::Allows(*account->holder, ~uint64_t{0}));
}

TEST(OwnerLedgerTest, ForgottenHolderLosesItsAccounts) {
  OwnerLedger ledger;
  OwnerAccount* const account = ledger.Account({"job 7", "weights"});
  OwnerLedger::Add(account, 60);
  OwnerLedger::Subtract(account, 60);
  ledger.Forget("job 7");
  EXPECT_EQ(ledger.Find("job 7"), nullptr);
  EXPECT_EQ(ledger.Account({"job 7", "weights"})->holder->peak_bytes, 0u);
}

}  // namespace
}  // namespace gpupool::engine
