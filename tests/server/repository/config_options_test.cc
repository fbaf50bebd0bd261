#include "server/repository/config_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "gpupool/v1/limits.pb.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<ConfiguredServing> ReadText(const std::string& text) {
  inference::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return ReadConfiguredServing("simple", config);
}

std::string Refusal(const std::string& text) {
  const auto read = ReadText(text);
  EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << text;
  return std::string(read.status().message());
}

TEST(ConfiguredServingTest, AnEmptyConfigSaysTheDefaults) {
  const auto read = ReadText("");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->serving.max_batch_size(), v1::DEFAULT_SERVED_ROWS);
  EXPECT_EQ(read->serving.max_queue_delay_microseconds(), 0u);
  EXPECT_EQ(read->device, "");
  EXPECT_EQ(read->versions.newest, 1u);
  EXPECT_THAT(read->notes, IsEmpty());
}

TEST(ConfiguredServingTest, BatchingBecomesOptionsOfServing) {
  const auto read = ReadText(
      "name: \"simple\" platform: \"onnxruntime_onnx\" "
      "backend: \"onnxruntime\" max_batch_size: 8 dynamic_batching { "
      "max_queue_delay_microseconds: 100 preferred_batch_size: 4 "
      "default_queue_policy { max_queue_size: 9 } }");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->serving.max_batch_size(), 8u);
  EXPECT_EQ(read->serving.max_queue_delay_microseconds(), 100u);
  EXPECT_EQ(read->serving.max_queue_size(), 9u);
  EXPECT_THAT(read->notes, ElementsAre(HasSubstr("preferred_batch_size")));
}

TEST(ConfiguredServingTest, AnswersAreKeptWhenTheConfigSaysSo) {
  EXPECT_FALSE(ReadText("")->response_cache);
  EXPECT_FALSE(ReadText("response_cache { }")->response_cache);
  EXPECT_FALSE(ReadText("response_cache { enable: false }")->response_cache);
  EXPECT_TRUE(ReadText("response_cache { enable: true }")->response_cache);
}

TEST(ConfiguredServingTest, ADecoupledModelKeepsNoAnswersAndNoSequences) {
  const std::string decoupled = "model_transaction_policy { decoupled: true } ";
  EXPECT_FALSE(ReadText("model_transaction_policy { }")->serving.decoupled());
  EXPECT_TRUE(ReadText(decoupled)->serving.decoupled());
  EXPECT_THAT(Refusal(decoupled + "response_cache { enable: true }"),
              HasSubstr("are not kept"));
  EXPECT_THAT(Refusal(decoupled + "sequence_batching { direct { } }"),
              HasSubstr("sequence_batching"));
}

TEST(ConfiguredServingTest, OtherKindsOfModelsAreRefusedByName) {
  EXPECT_THAT(Refusal("platform: \"tensorrt_plan\""),
              AllOf(HasSubstr("config.pbtxt: platform is \"tensorrt_plan\""),
                    HasSubstr("ONNX")));
  EXPECT_THAT(Refusal("backend: \"python\""),
              AllOf(HasSubstr("backend is \"python\""), HasSubstr("ONNX")));
  EXPECT_THAT(Refusal("default_model_filename: \"m.onnx\""),
              HasSubstr("name the file model.onnx"));
}

TEST(ConfiguredServingTest, AnotherNameThanTheFoldersIsRefused) {
  EXPECT_THAT(Refusal("name: \"other\""),
              AllOf(HasSubstr("\"other\""), HasSubstr("\"simple\"")));
}

TEST(ConfiguredServingTest, LimitsOfBatchesAreNamed) {
  EXPECT_THAT(Refusal("max_batch_size: -1"), HasSubstr("-1"));
  EXPECT_THAT(Refusal("max_batch_size: 1025"),
              AllOf(HasSubstr("max_batch_size is 1025"),
                    HasSubstr("the limit is 1024")));
  EXPECT_TRUE(ReadText("max_batch_size: 1024").ok());
  EXPECT_THAT(
      Refusal("dynamic_batching { max_queue_delay_microseconds: "
              "18446744073709551615 }"),
      HasSubstr("max_queue_delay_microseconds is 18446744073709551615"));
  EXPECT_THAT(Refusal("max_batch_size: 4 dynamic_batching { "
                      "preferred_batch_size: 5 }"),
              AllOf(HasSubstr("has 5"), HasSubstr("1 .. 4")));
  EXPECT_THAT(Refusal("dynamic_batching { preferred_batch_size: 0 }"),
              HasSubstr("has 0"));
}

TEST(ConfiguredServingTest, AGroupNamesTheDevice) {
  EXPECT_EQ(ReadText("instance_group { }")->device, "");
  EXPECT_EQ(ReadText("instance_group { kind: KIND_CPU }")->device, "cpu");
  EXPECT_EQ(ReadText("instance_group { kind: KIND_GPU }")->device, "cuda");
  EXPECT_EQ(ReadText("instance_group { gpus: 2 count: 1 }")->device, "cuda:2");
  EXPECT_THAT(ReadText("instance_group { name: \"g\" }")->notes,
              ElementsAre(HasSubstr("instance_group[0].name")));
}

TEST(ConfiguredServingTest, OtherGroupsAreRefused) {
  EXPECT_THAT(
      Refusal("instance_group { count: 2 }"),
      AllOf(HasSubstr("instance_group[0].count is 2"), HasSubstr("write 1")));
  EXPECT_THAT(Refusal("instance_group { } instance_group { }"),
              HasSubstr("instance_group has 2 groups"));
  EXPECT_THAT(Refusal("instance_group { gpus: 0 gpus: 1 }"),
              HasSubstr("names 2 GPUs"));
  EXPECT_THAT(Refusal("instance_group { gpus: -1 }"), HasSubstr("-1"));
  EXPECT_THAT(Refusal("instance_group { kind: KIND_CPU gpus: 0 }"),
              HasSubstr("KIND_CPU"));
  EXPECT_THAT(Refusal("instance_group { kind: KIND_MODEL }"),
              HasSubstr("KIND_MODEL"));
}

TEST(ConfiguredServingTest, AVersionPolicyThatChoosesNothingIsRefused) {
  EXPECT_THAT(Refusal("version_policy { latest { } }"),
              HasSubstr("version_policy.latest.num_versions is 0"));
  EXPECT_THAT(Refusal("version_policy { specific { } }"),
              HasSubstr("version_policy.specific.versions is empty"));
  EXPECT_THAT(Refusal("version_policy { specific { versions: 0 } }"),
              HasSubstr("has 0"));
}

TEST(VersionChoiceTest, ChoosesTheNewestByDefault) {
  EXPECT_THAT(VersionChoice().Of({1, 10, 2}), ElementsAre(10));
  EXPECT_THAT(VersionChoice().Of({}), IsEmpty());
}

TEST(VersionChoiceTest, ChoosesWhatThePolicySays) {
  const auto chosen = [](const std::string& policy) {
    return ReadText("version_policy { " + policy + " }")
        ->versions.Of({3, 1, 2});
  };
  EXPECT_THAT(chosen("all { }"), ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen("latest { num_versions: 2 }"), ElementsAre(2, 3));
  EXPECT_THAT(chosen("latest { num_versions: 9 }"), ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen("specific { versions: [ 3, 1, 7 ] }"), ElementsAre(1, 3));
}

}  // namespace
}  // namespace gpupool::server
