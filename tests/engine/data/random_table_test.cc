#include "engine/data/random_table.h"

#include <gmock/gmock.h>

#include "engine/data/dataset_reader.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;

v1::Dataset Form(uint64_t rows) {
  v1::Dataset dataset;
  dataset.set_rows(rows);
  dataset.add_feature_shape(2);
  dataset.add_feature_shape(3);
  v1::LabelFacts& labels = *dataset.mutable_labels();
  labels.set_whole(true);
  labels.set_minimum(-1);
  labels.set_maximum(9);
  return dataset;
}

std::vector<float> NumbersOf(const Column& column) {
  std::vector<float> numbers(column.rows * column.width);
  Convert(column, 0, absl::MakeSpan(numbers));
  return numbers;
}

TEST(RandomTableTest, HasTheFormOfTheDataset) {
  const auto table = RandomTable(Form(4), {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 4u);
  ASSERT_EQ(table->inputs.size(), 1u);
  EXPECT_EQ(table->features().width, 6u);
  EXPECT_THAT(table->features().shape, ElementsAre(2, 3));
  const std::vector<float> features = NumbersOf(table->features());
  EXPECT_EQ(features.size(), 24u);
  EXPECT_THAT(features, Each(AllOf(Ge(0.0f), Lt(1.0f))));
  EXPECT_NE(features[0], features[6]);
  EXPECT_TRUE(table->labels().facts.whole);
  EXPECT_EQ(NumbersOf(RandomTable(Form(4), {})->features()), features);
}

TEST(RandomTableTest, ASyntheticDatasetIsMadeInTheRowsThatAreAskedFor) {
  v1::Dataset dataset;
  dataset.set_rows(50);
  dataset.set_classes(3);
  dataset.add_feature_shape(2);
  dataset.mutable_labels()->set_whole(true);
  dataset.mutable_labels()->set_maximum(2);
  dataset.mutable_synthetic()->set_kind(v1::SyntheticData::BLOBS);
  const auto table = ReadOrMakeTable(dataset, "", {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 50u);
  EXPECT_THAT(table->features().shape, ElementsAre(2));
  EXPECT_EQ(table->labels().facts.class_count(), 3u);
  const std::vector<float> labels = NumbersOf(table->labels());
  EXPECT_EQ(labels.size(), 50u);
  EXPECT_THAT(labels, ::testing::Contains(2.0f));
  // The rows as they are made, and the columns that they become.
  EXPECT_EQ(*HostDataBytes(dataset, "", {}), 2 * table->host_bytes());
  EXPECT_EQ(
      ReadOrMakeTable(dataset, "", {.max_table_bytes = 599}).status().code(),
      absl::StatusCode::kResourceExhausted);
  dataset.set_rows(5);
  EXPECT_EQ(ReadOrMakeTable(dataset, "", {})->rows, 5u);
}

TEST(RandomTableTest, HasTheNamedArraysOfTheDataset) {
  v1::Dataset dataset;
  dataset.set_rows(2);
  v1::DatasetArray& ids = *dataset.add_inputs();
  ids.set_name("ids");
  ids.set_data_type(v1::INT64);
  ids.add_shape(3);
  v1::DatasetArray& image = *dataset.add_inputs();
  image.set_name("image");
  image.set_data_type(v1::FLOAT16);
  v1::DatasetArray& target = *dataset.add_targets();
  target.set_name("class");
  target.set_data_type(v1::INT32);
  target.mutable_facts()->set_maximum(7);
  const auto table = RandomTable(dataset, {});
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->inputs.size(), 2u);
  EXPECT_EQ(table->inputs[0].name, "ids");
  EXPECT_EQ(table->inputs[0].stored, ElementType::kInt64);
  EXPECT_THAT(NumbersOf(table->inputs[0]), Each(0.0f));
  EXPECT_EQ(table->inputs[1].stored, ElementType::kFloat16);
  EXPECT_EQ(NumbersOf(table->inputs[1]).size(), 2u);
  ASSERT_EQ(table->targets.size(), 1u);
  EXPECT_EQ(table->targets[0].name, "class");
  EXPECT_THAT(NumbersOf(table->targets[0]), ElementsAre(0, 7));
}

// Labels between them may be none: with 255 for rows that do not count, say.
TEST(RandomTableTest, LabelsAreOnesThatTheDatasetHas) {
  EXPECT_THAT(NumbersOf(RandomTable(Form(3), {})->labels()),
              ElementsAre(-1, 9, -1));
  v1::Dataset dataset = Form(2);
  dataset.clear_labels();
  dataset.set_classes(5);
  EXPECT_THAT(NumbersOf(RandomTable(dataset, {})->labels()), ElementsAre(0, 4));
  dataset.mutable_labels()->add_shape(2);
  dataset.mutable_labels()->set_maximum(1);
  EXPECT_THAT(NumbersOf(RandomTable(dataset, {})->labels()),
              ElementsAre(0, 1, 0, 1));
}

TEST(RandomTableTest, StaysWithinLimits) {
  EXPECT_EQ(
      RandomTable(Form(1 << 20), {.max_table_bytes = 1 << 20}).status().code(),
      absl::StatusCode::kResourceExhausted);
  v1::Dataset dataset = Form(1);
  dataset.add_feature_shape(0);
  EXPECT_EQ(RandomTable(dataset, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine
