#include "scheduler/state/id_tables.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;

template <typename Table>
std::vector<std::string> Walk(const Table& table) {
  std::vector<std::string> words;
  for (const auto& [id, word] : table) words.push_back(word);
  return words;
}

TEST(SparseTable, IsWalkedByRisingId) {
  SparseTable<JobId, std::string> table;
  table.Put(JobId(9), "nine");
  table.Put(JobId(1 << 30), "many");
  table.Put(JobId(2), "two");
  EXPECT_THAT(Walk(table), ElementsAre("two", "nine", "many"));
  table.Erase(JobId(9));
  EXPECT_EQ(table.Find(JobId(9)), nullptr);
  EXPECT_THAT(Walk(table), ElementsAre("two", "many"));
}

TEST(SparseTable, ThingsStayWhereTheyAre) {
  SparseTable<JobId, std::string> table;
  const std::string* first = &table.Put(JobId(500), "first");
  for (uint64_t id = 1; id < 1000; ++id) {
    if (id != 500) table.Put(JobId(id), "other");
  }
  SparseTable<JobId, std::string> moved = std::move(table);
  EXPECT_EQ(moved.Find(JobId(500)), first);
  EXPECT_EQ(moved.at(JobId(500)), "first");
  moved.Put(JobId(500), "second");
  EXPECT_EQ(*first, "second");
}

TEST(DenseTable, IdsCountFromZero) {
  DenseTable<DeviceId, std::string> table;
  table.Add() = "a";
  table.Add() = "b";
  EXPECT_THAT(Walk(table), ElementsAre("a", "b"));
  EXPECT_EQ(table.at(DeviceId(1)), "b");
  EXPECT_EQ(table.Find(DeviceId(2)), nullptr);
}

TEST(SparseTable, ACopyHasThingsOfItsOwn) {
  SparseTable<JobId, int> table;
  table.Put(JobId(7), 1);
  SparseTable<JobId, int> copy(table);
  *copy.Find(JobId(7)) = 2;
  EXPECT_EQ(table.at(JobId(7)), 1);
  EXPECT_EQ(copy.at(JobId(7)), 2);
  EXPECT_EQ(copy.begin()->second, 2);
}

}  // namespace
}  // namespace gpupool::scheduler
