#include "server/api/validation/text_layout_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

std::string TextRefusal(const v1::DatasetLayout& layout) {
  const absl::Status status = CheckTextLayout(layout);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(TextLayoutCheckTest, BytesNeedALengthWithinTheLimit) {
  v1::DatasetLayout layout;
  layout.set_format(v1::CSV);
  EXPECT_TRUE(CheckTextLayout(layout).ok());
  layout.set_text_length(8);
  EXPECT_THAT(TextRefusal(layout), HasSubstr("layout.text_length is 8, but"));
  layout.set_text(v1::DatasetLayout::BYTES);
  EXPECT_TRUE(CheckTextLayout(layout).ok());
  layout.set_text_length(65536);
  EXPECT_TRUE(CheckTextLayout(layout).ok());
  for (const uint32_t length : {0u, 65537u}) {
    layout.set_text_length(length);
    EXPECT_THAT(TextRefusal(layout), HasSubstr("needs 1 to 65536 numbers"));
  }
}

TEST(TextLayoutCheckTest, TokensAreThoseOfTheLabels) {
  v1::DatasetLayout layout;
  layout.set_format(v1::TEXT);
  EXPECT_TRUE(CheckTextLayout(layout).ok());
  v1::ColumnCategories& tokens = *layout.add_categories();
  tokens.add_values("the");
  tokens.set_column("words");
  EXPECT_THAT(TextRefusal(layout), HasSubstr("one entry, the tokens of the"));
  tokens.set_column("labels");
  EXPECT_TRUE(CheckTextLayout(layout).ok());
  layout.add_categories()->set_column("more");
  EXPECT_THAT(TextRefusal(layout), HasSubstr("layout.categories of text"));
}

TEST(TextLayoutCheckTest, AllFilesAreTables) {
  v1::UploadDatasetRequest::Header header;
  header.add_files();
  header.add_files()->set_role(v1::DatasetFile::IMAGES);
  FillTextRoles(&header);
  EXPECT_EQ(header.files(0).role(), v1::DatasetFile::TABLE);
  EXPECT_EQ(header.files(1).role(), v1::DatasetFile::TABLE);
}

}  // namespace
}  // namespace gpupool::server
