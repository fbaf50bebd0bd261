#include "server/api/validation/csv_layout_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::DatasetLayout Csv() {
  v1::DatasetLayout layout;
  layout.set_format(v1::CSV);
  return layout;
}

std::string LayoutRefusal(const v1::DatasetLayout& layout) {
  const absl::Status status = CheckCsvLayout(layout);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// Returns a layout with so many categories of one column.
v1::DatasetLayout WithCategories(int count, size_t bytes) {
  v1::DatasetLayout layout = Csv();
  v1::ColumnCategories& column = *layout.add_categories();
  column.set_column("color");
  for (int i = 0; i < count; ++i) {
    std::string name = absl::StrCat(i);
    name.resize(std::max(bytes, name.size()), 'x');
    column.add_values(name);
  }
  return layout;
}

TEST(CsvLayoutCheckTest, OptionsOfCsvAreForCsvOnly) {
  v1::DatasetLayout layout = Csv();
  layout.set_missing(v1::DatasetLayout::MEAN);
  layout.set_text(v1::DatasetLayout::ONE_HOT);
  layout.add_text_columns("zip");
  layout.add_skipped_columns("-1");
  EXPECT_TRUE(CheckCsvLayout(layout).ok());
  layout.set_format(v1::NPZ);
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("the format is NPZ"));
  v1::DatasetLayout none;
  none.set_format(v1::NPZ);
  EXPECT_TRUE(CheckCsvLayout(none).ok());
}

TEST(CsvLayoutCheckTest, CategoriesAreAlsoForImagesAndText) {
  v1::DatasetLayout layout = WithCategories(2, 1);
  layout.set_format(v1::IMAGES);
  EXPECT_TRUE(CheckCsvLayout(layout).ok());
  layout.set_format(v1::TEXT);
  EXPECT_TRUE(CheckCsvLayout(layout).ok());
  layout = WithCategories(10'001, 1);
  layout.set_format(v1::IMAGES);
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("10001"));
}

TEST(CsvLayoutCheckTest, UnknownValuesAreRefused) {
  v1::DatasetLayout layout = Csv();
  layout.set_missing(static_cast<v1::DatasetLayout::Missing>(9));
  EXPECT_THAT(LayoutRefusal(layout),
              HasSubstr("layout.missing has the unknown"));
  layout = Csv();
  layout.set_text(static_cast<v1::DatasetLayout::Text>(9));
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("layout.text has the unknown"));
}

TEST(CsvLayoutCheckTest, NamesOfColumnsAreBounded) {
  v1::DatasetLayout layout = Csv();
  layout.add_text_columns(std::string(255, 'a'));
  EXPECT_TRUE(CheckCsvLayout(layout).ok());
  layout.add_text_columns(std::string(256, 'a'));
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("256 bytes; 1 to 255"));
  layout = Csv();
  layout.add_skipped_columns("");
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("layout.skipped_columns"));
}

TEST(CsvLayoutCheckTest, ColumnsWithCategoriesAreBounded) {
  v1::DatasetLayout layout = Csv();
  for (int i = 0; i < 65'537; ++i) {
    v1::ColumnCategories& column = *layout.add_categories();
    column.set_column(absl::StrCat(i));
    column.add_values("");
  }
  EXPECT_THAT(LayoutRefusal(layout),
              HasSubstr("layout.categories names 65537 columns, the limit is "
                        "65536"));
  layout.mutable_categories()->RemoveLast();
  EXPECT_TRUE(CheckCsvLayout(layout).ok());
}

TEST(CsvLayoutCheckTest, CategoriesAreBounded) {
  EXPECT_TRUE(CheckCsvLayout(WithCategories(10'000, 1)).ok());
  EXPECT_THAT(LayoutRefusal(WithCategories(10'001, 1)),
              HasSubstr("has 10001 values; 1 to 10000"));
  EXPECT_THAT(LayoutRefusal(WithCategories(0, 1)), HasSubstr("has 0 values"));
  EXPECT_TRUE(CheckCsvLayout(WithCategories(4096, 256)).ok());
  EXPECT_THAT(LayoutRefusal(WithCategories(1, 257)),
              HasSubstr("257 bytes, the limit is 256"));
  EXPECT_THAT(LayoutRefusal(WithCategories(4097, 256)),
              HasSubstr("1048832 bytes, the limit is 1048576"));
}

TEST(CsvLayoutCheckTest, NothingIsNamedTwice) {
  v1::DatasetLayout layout = WithCategories(2, 1);
  layout.mutable_categories(0)->add_values("0");
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("has \"0\" twice"));
  layout = WithCategories(2, 1);
  *layout.add_categories() = layout.categories(0);
  EXPECT_THAT(LayoutRefusal(layout), HasSubstr("column \"color\" twice"));
}

}  // namespace
}  // namespace gpupool::server
