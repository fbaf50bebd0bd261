#include "scheduler/text/named_words.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(IsEntryNameTest, AllowsLettersDigitsAndThreeSigns) {
  for (const std::string& name :
       {std::string("a"), std::string("A-1_b.c."), std::string(128, 'a')}) {
    EXPECT_TRUE(IsEntryName(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string(".a"), std::string("a b"),
        std::string("a/b"), std::string(129, 'a')}) {
    EXPECT_FALSE(IsEntryName(name)) << name;
  }
}

TEST(WrongEntryTest, NamesTheEntryItsPlaceAndWhatIsAllowed) {
  const NamedWords entry{.name = "big", .where = " at line 3"};
  EXPECT_EQ(WrongEntry("queue", entry, "rank=x", "a rank is a number"),
            absl::InvalidArgumentError(
                "queue 'big' at line 3: rank=x; a rank is a number"));
}

}  // namespace
}  // namespace gpupool::scheduler
