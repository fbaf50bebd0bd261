#include "server/control/records/synthetic_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::SyntheticData OfKind(v1::SyntheticData::Kind kind) {
  v1::SyntheticData data;
  data.set_kind(kind);
  return data;
}

TEST(SyntheticDatasetTest, EachKindHasItsDefaults) {
  const auto blobs = SyntheticDataset(OfKind(v1::SyntheticData::BLOBS));
  ASSERT_TRUE(blobs.ok()) << blobs.status();
  EXPECT_EQ(blobs->rows(), 1000u);
  EXPECT_EQ(blobs->classes(), 3u);
  EXPECT_THAT(blobs->feature_shape(), ElementsAre(2));
  EXPECT_EQ(blobs->feature_type(), v1::FLOAT32);
  EXPECT_TRUE(blobs->labels().whole());
  EXPECT_EQ(blobs->labels().minimum(), 0);
  EXPECT_EQ(blobs->labels().maximum(), 2);
  EXPECT_EQ(blobs->synthetic().kind(), v1::SyntheticData::BLOBS);
  const auto shapes = SyntheticDataset(OfKind(v1::SyntheticData::SHAPES));
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ(shapes->classes(), 4u);
  EXPECT_THAT(shapes->feature_shape(), ElementsAre(1, 16, 16));
}

TEST(SyntheticDatasetTest, NumbersAreTaken) {
  v1::SyntheticData data = OfKind(v1::SyntheticData::BLOBS);
  data.set_rows(50);
  data.set_classes(7);
  data.set_features(9);
  const auto dataset = SyntheticDataset(data);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->rows(), 50u);
  EXPECT_EQ(dataset->classes(), 7u);
  EXPECT_THAT(dataset->feature_shape(), ElementsAre(9));
  EXPECT_EQ(dataset->labels().maximum(), 6);
}

TEST(SyntheticDatasetTest, NumbersOutOfRangeAreNamed) {
  const auto error = [](const v1::SyntheticData& data) {
    const absl::Status status = SyntheticDataset(data).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({}), HasSubstr("blobs, spirals or shapes"));
  v1::SyntheticData data = OfKind(v1::SyntheticData::SPIRALS);
  data.set_features(2);
  EXPECT_THAT(error(data), HasSubstr("features is for blobs"));
  data.clear_features();
  data.set_rows(10'000'001);
  EXPECT_THAT(error(data), HasSubstr("rows is 10000001"));
  data = OfKind(v1::SyntheticData::SHAPES);
  data.set_classes(5);
  EXPECT_THAT(error(data), HasSubstr("classes is 5; this kind has 1 .. 4"));
  data = OfKind(v1::SyntheticData::BLOBS);
  data.set_noise(-1);
  EXPECT_THAT(error(data), HasSubstr("noise is -1"));
  data.set_noise(std::nan(""));
  EXPECT_THAT(error(data), HasSubstr("noise is nan"));
  data.clear_noise();
  data.set_features(4097);
  EXPECT_THAT(error(data), HasSubstr("features is 4097"));
  data.set_features(4096);
  data.set_rows(65'521);  // 4097 numbers each; 2^28 have room for 65,520
  EXPECT_THAT(error(data), HasSubstr("65521 rows of 4097 numbers"));
  data.set_rows(65'520);
  EXPECT_TRUE(SyntheticDataset(data).ok());
}

}  // namespace
}  // namespace gpupool::server
