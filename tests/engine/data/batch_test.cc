#include "engine/data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gpupool::engine {
namespace {

using testing::ElementsAre;

Table SmallTable() {
  Table table;
  table.rows = 3;
  table.feature_shape = {2};
  table.row_features = 2;
  table.features = {1, 2, 3, 4, 5, 6};
  table.labels = {2, 0, 1};
  table.label_facts = SummarizeLabels({}, table.labels);
  return table;
}

TEST(BatchTest, GathersRowsInTheGivenOrder) {
  std::vector<float> features(4);
  GatherFeatures(SmallTable(), {2, 0}, absl::MakeSpan(features));
  EXPECT_THAT(features, ElementsAre(5, 6, 1, 2));
  std::vector<int64_t> classes(2);
  GatherClasses(SmallTable(), {2, 0}, absl::MakeSpan(classes));
  EXPECT_THAT(classes, ElementsAre(1, 2));
}

TEST(BatchTest, PadsAShortBatchWithZeros) {
  std::vector<float> features(4, 9), labels(2, 9);
  std::vector<int64_t> classes(2, 9);
  GatherFeatures(SmallTable(), {1}, absl::MakeSpan(features));
  GatherLabels(SmallTable(), {1}, absl::MakeSpan(labels));
  GatherClasses(SmallTable(), {1}, absl::MakeSpan(classes));
  EXPECT_THAT(features, ElementsAre(3, 4, 0, 0));
  EXPECT_THAT(labels, ElementsAre(0, 0));
  EXPECT_THAT(classes, ElementsAre(0, 0));
}

TEST(BatchTest, ARowsLabelsStayTogether) {
  Table table = SmallTable();
  table.row_labels = 2;
  table.labels = {1, 2, 3, 4, 5, -6};
  table.label_facts = SummarizeLabels({2}, table.labels);
  std::vector<float> labels(6, 9);
  GatherLabels(table, {2, 0}, absl::MakeSpan(labels));
  EXPECT_THAT(labels, ElementsAre(5, -6, 1, 2, 0, 0));
  std::vector<int64_t> classes(4, 9);
  GatherClasses(table, {2, 1}, absl::MakeSpan(classes));
  EXPECT_THAT(classes, ElementsAre(5, -6, 3, 4));
}

}  // namespace
}  // namespace gpupool::engine
