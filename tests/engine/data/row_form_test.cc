#include "engine/data/row_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TEST(RowFormTest, TheSameNumbersInTheSameShape) {
  const RowForm train = {"train", {3, 4, 5}, {4, 5}};
  EXPECT_TRUE(CheckSameForm(train, {"val", {3, 4, 5}, {4, 5}}).ok());
  EXPECT_TRUE(CheckSameForm(train, {"val", {1, 3, 4, 5}, {4, 1, 5}}).ok());
  EXPECT_TRUE(CheckSameForm(train, {"val", {60}, {20}}).ok())
      << "columns of a table have no other shape";
  EXPECT_EQ(
      CheckSameForm(train, {"val", {3, 5, 4}, {4, 5}}).message(),
      "data.validation: features of a row of dataset \"val\" have shape "
      "[3,5,4], but those of \"train\" have shape [3,4,5]; both need rows "
      "of the same form");
  EXPECT_THAT(CheckSameForm(train, {"val", {3, 4, 5}, {}}).message(),
              HasSubstr("labels of a row of dataset \"val\" have shape [], but "
                        "those of \"train\" have shape [4,5]"));
  EXPECT_TRUE(CheckSameForm({"a", {2}, {}}, {"b", {2}, {1}}).ok());
}

TEST(RowFormTest, NamedArraysAreComparedByName) {
  v1::Dataset train, val;
  train.set_name("train");
  val.set_name("val");
  for (v1::Dataset* dataset : {&train, &val}) {
    for (const char* name : {"ids", "mask"}) {
      v1::DatasetArray* array = dataset->add_inputs();
      array->set_name(name);
      array->add_shape(8);
    }
  }
  EXPECT_TRUE(CheckSameForm(FormOf(train), FormOf(val)).ok());
  val.mutable_inputs(1)->set_shape(0, 9);
  EXPECT_THAT(CheckSameForm(FormOf(train), FormOf(val)).message(),
              HasSubstr("'mask' of a row of dataset \"val\" have shape [9]"));
  val.mutable_inputs(1)->set_name("masks");
  EXPECT_THAT(CheckSameForm(FormOf(train), FormOf(val)).message(),
              HasSubstr("\"val\" has the arrays 'ids', 'masks', but \"train\" "
                        "has 'ids', 'mask'"));
}

TEST(RowFormTest, TablesHaveTheFormsOfTheirDatasets) {
  Table train, val;
  for (Table* table : {&train, &val}) {
    table->rows = 2;
    table->inputs = {{.name = "ids", .shape = {8}, .rows = 2, .width = 8}};
    table->targets = {{.name = "", .rows = 2}};
  }
  EXPECT_TRUE(CheckSameForm(FormOf("train", train), FormOf("val", val)).ok());
  val.inputs[0].name = "";
  EXPECT_THAT(
      CheckSameForm(FormOf("train", train), FormOf("val", val)).message(),
      HasSubstr("\"val\" has the arrays no names, but \"train\" has 'ids'"));
  val.inputs[0].name = "ids";
  val.targets[0].shape = {3};
  EXPECT_THAT(
      CheckSameForm(FormOf("train", train), FormOf("val", val)).message(),
      HasSubstr("labels of a row of dataset \"val\" have shape [3]"));
}

// Returns a dataset with a text column among its features.
v1::Dataset WithColors(const std::string& name,
                       const std::vector<std::string>& colors) {
  v1::Dataset dataset;
  dataset.set_name(name);
  v1::DatasetColumn* size = dataset.mutable_description()->add_columns();
  size->set_role(v1::DatasetColumn::FEATURE);
  v1::DatasetColumn* color = dataset.mutable_description()->add_columns();
  color->set_name("color");
  color->set_role(v1::DatasetColumn::FEATURE);
  color->set_first_number(1);
  color->set_is_text(true);
  color->mutable_categories()->Add(colors.begin(), colors.end());
  return dataset;
}

TEST(RowFormTest, TextColumnsOfBothHaveTheSameCategories) {
  const v1::Dataset train = WithColors("train", {"red", "blue"});
  EXPECT_TRUE(
      CheckSameCategories(train, WithColors("v", {"red", "blue"})).ok());
  EXPECT_TRUE(CheckSameCategories(v1::Dataset(), v1::Dataset()).ok());
  const absl::Status swapped =
      CheckSameCategories(train, WithColors("val", {"blue", "red"}));
  EXPECT_EQ(swapped.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(swapped.message()),
      HasSubstr("column \"color\" of dataset \"val\" has 2 categories "
                "(\"blue\", \"red\"), but that of \"train\" has 2 categories "
                "(\"red\", \"blue\"), so its numbers would mean something "
                "else; upload \"val\" again with the categories of \"train\" "
                "(gpupool datasets upload --like train)"));
  EXPECT_FALSE(CheckSameCategories(train, WithColors("v", {"red"})).ok());
  v1::Dataset moved = WithColors("moved", {"red", "blue"});
  moved.mutable_description()->mutable_columns(1)->set_first_number(0);
  for (const v1::Dataset& other : {moved, v1::Dataset()}) {
    EXPECT_THAT(std::string(CheckSameCategories(train, other).message()),
                HasSubstr("column \"color\" holds text in only one"));
    EXPECT_FALSE(CheckSameCategories(other, train).ok());
  }
}

TEST(RowFormTest, MissingCellsOfBothBecomeTheSame) {
  v1::Dataset train, val;
  train.set_name("train");
  val.set_name("val");
  train.mutable_layout()->set_format(v1::CSV);
  val.mutable_layout()->set_format(v1::CSV);
  train.mutable_layout()->set_missing(v1::DatasetLayout::REFUSE);
  EXPECT_TRUE(CheckSameCategories(train, val).ok())
      << "the default, said aloud";
  train.mutable_layout()->set_missing(v1::DatasetLayout::MEAN);
  EXPECT_THAT(std::string(CheckSameCategories(train, val).message()),
              HasSubstr("\"val\" has layout.missing REFUSE, but \"train\" has "
                        "MEAN; upload \"val\" again with MEAN"));
  val.mutable_layout()->set_missing(v1::DatasetLayout::MEAN);
  EXPECT_TRUE(CheckSameCategories(train, val).ok());
  val.mutable_layout()->clear_missing();
  val.mutable_layout()->set_format(v1::NPZ);
  EXPECT_TRUE(CheckSameCategories(train, val).ok())
      << "arrays have no missing cells";
}

TEST(RowFormTest, TextsOfBothHaveTheSameTokenizer) {
  v1::Dataset train, val;
  train.set_name("train");
  val.set_name("val");
  const auto refusal = [](const v1::Dataset& one, const v1::Dataset& other) {
    return std::string(CheckSameCategories(one, other).message());
  };
  v1::DatasetFile& file = *train.add_files();
  file.set_role(v1::DatasetFile::TOKENIZER);
  file.set_sha256("aa");
  EXPECT_THAT(refusal(train, val),
              HasSubstr("dataset \"val\" has no tokenizer, but \"train\" has "
                        "one, so its tokens would mean something else"));
  EXPECT_THAT(refusal(val, train),
              HasSubstr("\"train\" has a tokenizer, but \"val\" has none"));
  *val.add_files() = file;
  EXPECT_TRUE(CheckSameCategories(train, val).ok());
  val.mutable_files(0)->set_sha256("bb");
  EXPECT_EQ(refusal(train, val),
            "data.validation: dataset \"val\" has another tokenizer than "
            "\"train\", so its tokens would mean something else; upload "
            "\"val\" again with the same --tokenizer FILE");
}

// Returns a dataset whose last column is the label.
TEST(RowFormTest, RecordingsOfBothHaveTheSameRate) {
  v1::Dataset train, val;
  train.set_name("train");
  val.set_name("val");
  train.mutable_description()->mutable_audio()->set_rate(8000);
  EXPECT_TRUE(CheckSameCategories(train, val).ok()) << "nothing is known";
  val.mutable_description()->mutable_audio()->set_rate(8000);
  EXPECT_TRUE(CheckSameCategories(train, val).ok());
  val.mutable_description()->mutable_audio()->set_rate(16000);
  EXPECT_EQ(CheckSameCategories(train, val).message(),
            "data.validation: recordings of dataset \"val\" have 16000 samples "
            "a second, but those of \"train\" have 8000; convert them to that "
            "rate, and upload \"val\" again (gpupool datasets upload --like "
            "train)");
}

v1::Dataset WithColumns(const std::string& name,
                        const std::vector<std::string>& columns) {
  v1::Dataset dataset;
  dataset.set_name(name);
  dataset.mutable_layout()->set_format(v1::CSV);
  uint32_t number = 0;
  for (const std::string& title : columns) {
    v1::DatasetColumn* column = dataset.mutable_description()->add_columns();
    column->set_name(title);
    column->set_role(v1::DatasetColumn::FEATURE);
    column->set_first_number(number++);
  }
  v1::DatasetColumn& label = *dataset.mutable_description()->mutable_columns(
      static_cast<int>(columns.size()) - 1);
  label.set_role(v1::DatasetColumn::LABEL);
  label.set_first_number(0);
  return dataset;
}

TEST(RowFormTest, ColumnsOfBothHaveTheSameOrder) {
  const v1::Dataset train = WithColumns("train", {"a", "b", "y"});
  EXPECT_TRUE(CheckSameOrder(train, WithColumns("v", {"a", "b", "y"})).ok());
  EXPECT_THAT(
      std::string(
          CheckSameOrder(train, WithColumns("val", {"b", "a", "y"})).message()),
      HasSubstr("columns of dataset \"val\" have another order than those of "
                "\"train\": \"b\" is where \"a\" should be"));
  EXPECT_THAT(
      std::string(
          CheckSameOrder(train, WithColumns("val", {"a", "y", "b"})).message()),
      HasSubstr("\"y\" is where \"b\" should be"));
  v1::Dataset arrays = WithColumns("arrays", {"b", "a", "y"});
  arrays.mutable_layout()->set_format(v1::NPZ);
  EXPECT_TRUE(CheckSameOrder(train, arrays).ok());
}

TEST(RowFormTest, ColumnsWithOtherNamesHaveAnyOrder) {
  const v1::Dataset train = WithColumns("train", {"a", "b", "y"});
  for (const auto& names : std::vector<std::vector<std::string>>{
           {"0", "1", "2"}, {"A", "B", "Y"}, {"", "", ""}}) {
    EXPECT_TRUE(CheckSameOrder(train, WithColumns("v", names)).ok());
    EXPECT_TRUE(CheckSameOrder(WithColumns("v", names), train).ok());
  }
  EXPECT_TRUE(CheckSameOrder(WithColumns("train", {"1", "2", "3"}),
                             WithColumns("v", {"0", "1", "2"}))
                  .ok())
      << "without a header, and column 0 of one file is left out";
}

TEST(RowFormTest, ShapesAgreeInNumbersAndInSeveralDimensions) {
  EXPECT_TRUE(ShapesAgree({1, 2, 3}, {2, 1, 3}));
  EXPECT_TRUE(ShapesAgree({6}, {2, 3}));
  EXPECT_TRUE(ShapesAgree({}, {1, 1}));
  EXPECT_FALSE(ShapesAgree({2, 3}, {3, 2}));
  EXPECT_FALSE(ShapesAgree({5}, {2, 3}));
}

}  // namespace
}  // namespace gpupool::engine
