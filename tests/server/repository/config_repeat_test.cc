#include "server/repository/config_repeat.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

inference::ModelConfig RepeatConfig(const std::string& more) {
  inference::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "backend: \"repeat\" model_transaction_policy { decoupled: true } " +
          more,
      &config));
  return config;
}

TEST(ConfigRepeatTest, TheBackEndIsNamedAsBackendOrPlatform) {
  inference::ModelConfig config;
  EXPECT_FALSE(IsRepeat(config));
  config.set_platform("repeat");
  EXPECT_TRUE(IsRepeat(config));
  config.set_platform("");
  config.set_backend("repeat");
  EXPECT_TRUE(IsRepeat(config));
}

TEST(ConfigRepeatTest, TheConfigOfTritonsTestModelIsTaken) {
  const absl::Status checked = CheckRepeatConfig(
      "repeat_int32",
      RepeatConfig(
          "name: \"repeat_int32\" max_batch_size: 0 "
          "input [ { name: \"IN\" data_type: TYPE_INT32 dims: [ -1 ] }, "
          "{ name: \"DELAY\" data_type: TYPE_UINT32 dims: [ -1 ] }, "
          "{ name: \"WAIT\" data_type: TYPE_UINT32 dims: [ 1 ] } ] "
          "output [ { name: \"OUT\" data_type: TYPE_INT32 dims: [ 1 ] }, "
          "{ name: \"IDX\" data_type: TYPE_UINT32 dims: [ 1 ] } ] "
          "instance_group [ { kind: KIND_CPU } ]"));
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST(ConfigRepeatTest, WhatTheBackEndDoesNotDoIsRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {"name: \"other\"", "name is"},
      {"platform: \"onnxruntime_onnx\"", "platform is"},
      {"default_model_filename: \"model.onnx\"", "default_model_filename"},
      {"max_batch_size: 4", "max_batch_size is 4"},
      {"dynamic_batching { }", "dynamic_batching is set"},
      {"response_cache { enable: true }", "response_cache.enable is set"},
      {"instance_group [ { kind: KIND_GPU } ]", "write KIND_CPU"},
      {"output { name: \"OUT\" data_type: TYPE_FP32 dims: [ 1 ] }",
       "data_type is TYPE_FP32"}};
  for (const auto& [field, text] : refused) {
    EXPECT_THAT(
        std::string(CheckRepeatConfig("r", RepeatConfig(field)).message()),
        HasSubstr(text));
  }
}

TEST(ConfigRepeatTest, TheModelMustBeDecoupled) {
  inference::ModelConfig config;
  config.set_backend("repeat");
  EXPECT_THAT(std::string(CheckRepeatConfig("r", config).message()),
              HasSubstr("write model_transaction_policy { decoupled: true }"));
}

}  // namespace
}  // namespace gpupool::server
