#include "server/api/validation/image_layout_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::DatasetLayout Images() {
  v1::DatasetLayout layout;
  layout.set_format(v1::IMAGES);
  return layout;
}

std::string ImageRefusal(const v1::DatasetLayout& layout) {
  const absl::Status status = CheckImageLayout(layout);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ImageLayoutCheckTest, SizesHaveTwoSidesWithinTheLimit) {
  v1::DatasetLayout layout = Images();
  EXPECT_TRUE(CheckImageLayout(layout).ok());
  layout.set_image_height(4096);
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("4096 and 0; set both"));
  layout.set_image_width(1);
  EXPECT_TRUE(CheckImageLayout(layout).ok());
  layout.set_image_width(4097);
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("4096 and 4097"));
}

TEST(ImageLayoutCheckTest, UnknownChannelsAndFitsAreRefused) {
  for (const uint32_t channels : {0u, 1u, 3u}) {
    v1::DatasetLayout layout = Images();
    layout.set_image_channels(channels);
    EXPECT_TRUE(CheckImageLayout(layout).ok());
  }
  v1::DatasetLayout layout = Images();
  layout.set_image_channels(4);
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("image_channels is 4"));
  layout = Images();
  layout.set_image_fit(static_cast<v1::DatasetLayout::ImageFit>(9));
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("unknown value 9"));
}

TEST(ImageLayoutCheckTest, OptionsOfImagesAreForImagesOnly) {
  v1::DatasetLayout layout;
  layout.set_format(v1::NPZ);
  EXPECT_TRUE(CheckImageLayout(layout).ok());
  layout.set_image_channels(1);
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("the format is NPZ"));
}

TEST(ImageLayoutCheckTest, ClassesAreThoseOfTheLabels) {
  v1::DatasetLayout layout = Images();
  v1::ColumnCategories& classes = *layout.add_categories();
  classes.set_column("labels");
  classes.add_values("cat");
  EXPECT_TRUE(CheckImageLayout(layout).ok());
  classes.add_values("");
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("empty name"));
  classes.set_column("kind");
  EXPECT_THAT(ImageRefusal(layout), HasSubstr("\"labels\""));
}

TEST(ImageLayoutCheckTest, CompressedArchivesAreRefusedByName) {
  v1::UploadDatasetRequest::Header header;
  header.add_files()->set_file_name("a.tar");
  EXPECT_TRUE(CheckNotPacked(header).ok());
  header.add_files()->set_file_name("B.TAR.GZ");
  const absl::Status refused = CheckNotPacked(header);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(refused.message(), HasSubstr("\"B.TAR.GZ\" is a compressed"));
}

TEST(ImageLayoutCheckTest, AllArchivesHaveOneRole) {
  v1::UploadDatasetRequest::Header header;
  header.mutable_layout()->set_format(v1::IMAGES);
  header.add_files();
  header.add_files()->set_role(v1::DatasetFile::TABLE);
  ASSERT_TRUE(FillArchiveRoles(&header).ok());
  EXPECT_EQ(header.files(0).role(), v1::DatasetFile::IMAGES);
  EXPECT_EQ(header.files(1).role(), v1::DatasetFile::IMAGES);
  header.mutable_files(1)->set_role(v1::DatasetFile::LABELS);
  EXPECT_TRUE(absl::IsInvalidArgument(FillArchiveRoles(&header)));
  v1::UploadDatasetRequest::Header audio;
  audio.mutable_layout()->set_format(v1::AUDIO);
  audio.add_files();
  ASSERT_TRUE(FillArchiveRoles(&audio).ok());
  EXPECT_EQ(audio.files(0).role(), v1::DatasetFile::AUDIO);
  audio.mutable_files(0)->set_role(v1::DatasetFile::IMAGES);
  EXPECT_TRUE(absl::IsInvalidArgument(FillArchiveRoles(&audio)));
}

}  // namespace
}  // namespace gpupool::server
