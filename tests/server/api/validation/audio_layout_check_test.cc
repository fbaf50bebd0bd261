#include "server/api/validation/audio_layout_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::DatasetLayout Recordings() {
  v1::DatasetLayout layout;
  layout.set_format(v1::AUDIO);
  return layout;
}

std::string AudioLayoutRefusal(const v1::DatasetLayout& layout) {
  const absl::Status status = CheckAudioLayout(layout);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(AudioLayoutCheckTest, RowsHaveALengthWithinTheLimit) {
  v1::DatasetLayout layout = Recordings();
  EXPECT_TRUE(CheckAudioLayout(layout).ok());
  layout.mutable_audio()->set_samples(1 << 24);
  EXPECT_TRUE(CheckAudioLayout(layout).ok());
  layout.mutable_audio()->set_samples((1 << 24) + 1);
  EXPECT_THAT(AudioLayoutRefusal(layout), HasSubstr("samples is 16777217"));
  layout.mutable_audio()->set_samples(1);
  layout.mutable_audio()->set_seconds(1);
  EXPECT_THAT(AudioLayoutRefusal(layout), HasSubstr("set one"));
}

TEST(AudioLayoutCheckTest, SecondsArePositiveNumbers) {
  for (const double seconds :
       {-1.0, 1e30, std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    v1::DatasetLayout layout = Recordings();
    layout.mutable_audio()->set_seconds(seconds);
    EXPECT_THAT(AudioLayoutRefusal(layout), HasSubstr("a number above 0"));
  }
}

TEST(AudioLayoutCheckTest, RatesHaveALimit) {
  v1::DatasetLayout layout = Recordings();
  layout.mutable_audio()->set_rate(1'000'000);
  EXPECT_TRUE(CheckAudioLayout(layout).ok());
  layout.mutable_audio()->set_rate(1'000'001);
  EXPECT_THAT(AudioLayoutRefusal(layout), HasSubstr("rate is 1000001"));
}

TEST(AudioLayoutCheckTest, OptionsOfRecordingsAreForRecordingsOnly) {
  v1::DatasetLayout layout;
  layout.set_format(v1::IMAGES);
  EXPECT_TRUE(CheckAudioLayout(layout).ok());
  layout.mutable_audio()->set_rate(8000);
  EXPECT_THAT(AudioLayoutRefusal(layout), HasSubstr("the format is IMAGES"));
}

TEST(AudioLayoutCheckTest, ClassesAreThoseOfTheLabels) {
  v1::DatasetLayout layout = Recordings();
  v1::ColumnCategories& classes = *layout.add_categories();
  classes.set_column("labels");
  classes.add_values("low");
  EXPECT_TRUE(CheckAudioLayout(layout).ok());
  classes.add_values("");
  EXPECT_THAT(AudioLayoutRefusal(layout), HasSubstr("empty name"));
}

}  // namespace
}  // namespace gpupool::server
