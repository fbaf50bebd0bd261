#include "server/api/validation/text_layout_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

// Returns a header of text files with these roles.
v1::UploadDatasetRequest::Header TextsWith(
    const std::vector<v1::DatasetFile::Role>& roles) {
  v1::UploadDatasetRequest::Header header;
  header.mutable_layout()->set_format(v1::TEXT);
  for (const v1::DatasetFile::Role role : roles) {
    v1::DatasetFile& file = *header.add_files();
    file.set_file_name("a");
    file.set_total_bytes(1);
    file.set_role(role);
  }
  return header;
}

std::string RolesRefusal(v1::UploadDatasetRequest::Header header) {
  const absl::Status status = FillTextRoles(&header);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(TextLayoutCheckTest, FilesAreTablesAndATokenizer) {
  auto header = TextsWith({v1::DatasetFile::ROLE_UNSPECIFIED,
                           v1::DatasetFile::TABLE, v1::DatasetFile::TOKENIZER});
  ASSERT_TRUE(FillTextRoles(&header).ok());
  EXPECT_EQ(header.files(0).role(), v1::DatasetFile::TABLE);
  EXPECT_EQ(header.files(1).role(), v1::DatasetFile::TABLE);
  EXPECT_EQ(header.files(2).role(), v1::DatasetFile::TOKENIZER);
}

TEST(TextLayoutCheckTest, OtherRolesAreRefused) {
  EXPECT_EQ(RolesRefusal(
                TextsWith({v1::DatasetFile::TABLE, v1::DatasetFile::IMAGES})),
            "file \"a\" has the role IMAGES, but files of text have TABLE, and "
            "a SentencePiece model TOKENIZER");
  EXPECT_THAT(RolesRefusal(TextsWith({static_cast<v1::DatasetFile::Role>(99)})),
              HasSubstr("has the role 99"));
  EXPECT_THAT(RolesRefusal(TextsWith({v1::DatasetFile::TOKENIZER})),
              HasSubstr("a tokenizer and no text"));
  EXPECT_THAT(RolesRefusal(
                  TextsWith({v1::DatasetFile::TABLE, v1::DatasetFile::TOKENIZER,
                             v1::DatasetFile::TOKENIZER})),
              HasSubstr("2 files with the role TOKENIZER"));
}

TEST(TextLayoutCheckTest, ATokenizerIsSmallAndTheOnlyOneAndForText) {
  auto header = TextsWith({v1::DatasetFile::TABLE, v1::DatasetFile::TOKENIZER});
  EXPECT_TRUE(CheckTokenizerFormat(header).ok());
  header.mutable_files(1)->set_total_bytes((16 << 20) + 1);
  EXPECT_THAT(RolesRefusal(header),
              HasSubstr("has 16777217 bytes, the limit is 16777216"));
  header.mutable_files(1)->set_total_bytes(16 << 20);
  EXPECT_TRUE(FillTextRoles(&header).ok());
  header.mutable_layout()->add_categories()->set_column("labels");
  EXPECT_THAT(RolesRefusal(header), HasSubstr("leave one out"));
  header.mutable_layout()->set_format(v1::CSV);
  EXPECT_EQ(CheckTokenizerFormat(header).message(),
            "the tokenizer \"a\" is for files of text, but the format is CSV; "
            "leave it out, or give .txt files");
}

}  // namespace
}  // namespace gpupool::server
