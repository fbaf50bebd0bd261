#include "client/yaml/yaml_scalar.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;

const FieldDescriptor& Field(const Message& message, const char* name) {
  return *message.GetDescriptor()->FindFieldByName(name);
}

template <typename M>
absl::Status Set(M& message, const char* field, absl::string_view text) {
  return SetScalar(text, Field(message, field), message);
}

TEST(SetScalarTest, ChecksTheRangeOfThirtyTwoBits) {
  v1::JobSpec job;
  EXPECT_TRUE(Set(job, "priority", "-1000").ok());
  EXPECT_EQ(job.priority(), -1000);
  EXPECT_THAT(Set(job, "priority", "3000000000").message(),
              HasSubstr("outside of -2147483648..2147483647"));
  v1::TrainingSpec training;
  EXPECT_THAT(Set(training, "batch_size", "4294967296").message(),
              HasSubstr("outside of 0..4294967295"));
}

TEST(SetScalarTest, NamesWhatTheFieldNeeds) {
  v1::TrainingSpec training;
  EXPECT_EQ(Set(training, "batch_size", "-1").message(),
            "'-1' is not a whole number of 0 or more, which batch_size needs");
  EXPECT_EQ(Set(training, "batch_size", "3.5").message(),
            "'3.5' is not a whole number of 0 or more, which batch_size needs");
  v1::Sgd sgd;
  EXPECT_EQ(Set(sgd, "nesterov", "maybe").message(),
            "'maybe' is not true or false, which nesterov needs");
  EXPECT_EQ(Set(sgd, "momentum", "fast").message(),
            "'fast' is not a number, which momentum needs");
}

TEST(SetScalarTest, TakesOtherWordsForAPrecision) {
  v1::TrainingSpec training;
  EXPECT_TRUE(Set(training, "precision", "bfloat16").ok());
  EXPECT_EQ(training.precision(), v1::BF16);
  EXPECT_THAT(Set(training, "precision", "medium").message(),
              HasSubstr("write bf16"));
}

TEST(SetScalarTest, TakesByteSizesOnlyWhereTheNameSaysBytes) {
  v1::Device device;
  EXPECT_TRUE(Set(device, "limit_bytes", "2GiB").ok());
  EXPECT_EQ(device.limit_bytes(), 2ull << 30);
  EXPECT_FALSE(Set(device, "threads", "2k").ok());
}

TEST(SetScalarTest, TextsAreUtf8) {
  v1::DatasetLayout layout;
  EXPECT_TRUE(Set(layout, "features_array", "\u00fc").ok());
  EXPECT_THAT(Set(layout, "features_array", "a\xff").message(),
              HasSubstr("features_array has bytes that are no UTF-8"));
}

TEST(SetScalarTest, TakesEnumsInAnyCaseAndSuggests) {
  v1::DatasetLayout layout;
  EXPECT_TRUE(Set(layout, "format", "csv").ok());
  EXPECT_EQ(layout.format(), v1::CSV);
  EXPECT_THAT(
      Set(layout, "format", "cvs").message(),
      HasSubstr("one of csv, idx, npy, npz, images, audio, text, which format "
                "needs; did you mean 'csv'?"));
}

TEST(SetScalarTest, TakesTheBooleansOfYaml12) {
  v1::Sgd sgd;
  for (const char* word : {"true", "True", "TRUE"}) {
    sgd.set_nesterov(false);
    EXPECT_TRUE(Set(sgd, "nesterov", word).ok()) << word;
    EXPECT_TRUE(sgd.nesterov());
  }
  for (const char* word : {"false", "False", "FALSE"}) {
    sgd.set_nesterov(true);
    EXPECT_TRUE(Set(sgd, "nesterov", word).ok()) << word;
    EXPECT_FALSE(sgd.nesterov());
  }
}

TEST(SetScalarTest, RefusesOtherWordsForBoolAndSaysWhatToWrite) {
  v1::JobSpec job;
  for (const char* word : {"yes", "Yes", "on", "ON", "tRUE"}) {
    EXPECT_EQ(Set(job, "exclusive", word).message(),
              absl::StrCat("'", word,
                           "' is not true or false, which exclusive "
                           "needs; write true"));
  }
  for (const char* word : {"no", "off", "fALSE"}) {
    EXPECT_THAT(std::string(Set(job, "exclusive", word).message()),
                ::testing::EndsWith("; write false"));
  }
  EXPECT_FALSE(job.exclusive());
}

TEST(SetScalarTest, AppendsToRepeatedFields) {
  v1::Conv2d conv;
  EXPECT_TRUE(Set(conv, "kernel", "3").ok());
  EXPECT_TRUE(Set(conv, "kernel", "5").ok());
  EXPECT_THAT(conv.kernel(), ::testing::ElementsAre(3, 5));
  EXPECT_EQ(ScalarText(conv, Field(conv, "kernel"), 1), "5");
}

TEST(ScalarTextTest, DoublesReadBackToTheSameBits) {
  v1::Sgd sgd;
  for (double value : {0.1, 1e-3, 1.0 / 3, 1e300, 5e-324, -0.0625, 123456.0}) {
    sgd.set_learning_rate(value);
    const std::string text = ScalarText(sgd, Field(sgd, "learning_rate"), -1);
    v1::Sgd back;
    ASSERT_TRUE(Set(back, "learning_rate", text).ok()) << text;
    EXPECT_EQ(back.learning_rate(), value) << text;
  }
  sgd.set_learning_rate(0.1);
  EXPECT_EQ(ScalarText(sgd, Field(sgd, "learning_rate"), -1), "0.1");
}

}  // namespace
}  // namespace gpupool::client
