#include "server/repository/model_config_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParseModelConfigTest, ReadsTheTextFormat) {
  const auto config = ParseModelConfig(R"(
# a comment
name: "simple"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] } ]
instance_group [ { kind: KIND_GPU gpus: [ 1 ] } ]
dynamic_batching { }
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_batch_size(), 8);
  EXPECT_EQ(config->input(0).data_type(), inference::TYPE_INT32);
  EXPECT_EQ(config->instance_group(0).gpus(0), 1);
  EXPECT_TRUE(config->has_dynamic_batching());
}

TEST(ParseModelConfigTest, AnEmptyFileSaysNothing) {
  ASSERT_TRUE(ParseModelConfig("").ok());
  EXPECT_EQ(ParseModelConfig("")->ByteSizeLong(), 0u);
}

TEST(ParseModelConfigTest, AnErrorHasLineAndColumn) {
  const auto unknown = ParseModelConfig("name: \"a\"\n  batch_size: 3\n");
  EXPECT_TRUE(absl::IsInvalidArgument(unknown.status()));
  EXPECT_THAT(std::string(unknown.status().message()),
              AllOf(HasSubstr("line 2, column "), HasSubstr("batch_size")));
}

TEST(ParseModelConfigTest, AFieldThatIsGivenTwiceIsRefused) {
  const auto twice = ParseModelConfig("max_batch_size: 1\nmax_batch_size: 2\n");
  EXPECT_THAT(std::string(twice.status().message()),
              AllOf(HasSubstr("line 2"), HasSubstr("max_batch_size")));
}

TEST(ParseModelConfigTest, BytesThatAreNoTextAreRefused) {
  EXPECT_THAT(
      std::string(ParseModelConfig("name: \"\xff\"").status().message()),
      HasSubstr("no text"));
}

TEST(ParseModelConfigTest, AFileAboveTheLimitIsRefused) {
  EXPECT_TRUE(ParseModelConfig(std::string(kMaxConfigBytes, ' ')).ok());
  const auto large = ParseModelConfig(std::string(kMaxConfigBytes + 1, ' '));
  EXPECT_THAT(std::string(large.status().message()),
              AllOf(HasSubstr("1048577 bytes"), HasSubstr("limit")));
}

}  // namespace
}  // namespace gpupool::server
