#include "scheduler/text/named_words.h"

#include <gtest/gtest.h>

namespace gpupool::scheduler {
namespace {

TEST(SplitNamedWordsTest, SplitsEntriesAndWordsAndStripsThem) {
  const auto entries = SplitNamedWords(" a : x = 1, y=b=c ;; cd:z ");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a");
  ASSERT_EQ(entries[0].words.size(), 2u);
  EXPECT_EQ(entries[0].words[0].key, "x");
  EXPECT_EQ(entries[0].words[0].value, "1");
  EXPECT_EQ(entries[0].words[1].key, "y");
  EXPECT_EQ(entries[0].words[1].value, "b=c") << "only the first '=' splits";
  EXPECT_EQ(entries[0].where, "");
  ASSERT_EQ(entries[1].words.size(), 1u);
  EXPECT_EQ(entries[1].words[0].key, "z");
  EXPECT_EQ(entries[1].words[0].value, "");
}

TEST(SplitNamedWordsTest, AnEntryMayHaveNoWordsAndTheTextNoEntry) {
  EXPECT_TRUE(SplitNamedWords(" ; ;").empty());
  const auto entries = SplitNamedWords("a;b: ;c:,");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_TRUE(entries[0].words.empty());
  EXPECT_TRUE(entries[1].words.empty());
  EXPECT_EQ(entries[2].words.size(), 2u) << "two words without a key";
}

TEST(SplitNamedWordsTest, OnlyTheFirstColonEndsTheName) {
  const auto entries = SplitNamedWords("big:devices=cuda:0+cuda:1");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name, "big");
  EXPECT_EQ(entries[0].words[0].value, "cuda:0+cuda:1");
}

}  // namespace
}  // namespace gpupool::scheduler
