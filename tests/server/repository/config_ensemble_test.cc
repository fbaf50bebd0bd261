#include "server/repository/config_ensemble.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "absl/strings/str_replace.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr char kChain[] = R"(
name: "both"
platform: "ensemble"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_INT64 dims: [ -1 ] } ]
ensemble_scheduling {
  step [
    { model_name: "pre" model_version: -1
      input_map { key: "in" value: "x" }
      output_map { key: "out" value: "m" } },
    { model_name: "net" model_version: 7
      input_map { key: "in" value: "m" }
      output_map { key: "out" value: "y" } }
  ]
}
)";

absl::StatusOr<EnsembleSpec> ReadEnsembleText(const std::string& text) {
  inference::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return ReadEnsemble({.model = "both", .version = 3}, config);
}

TEST(ConfigEnsembleTest, ReadsTensorsAndSteps) {
  const auto spec = ReadEnsembleText(kChain);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model, "both");
  EXPECT_EQ(spec->version, 3u);
  EXPECT_EQ(spec->max_batch_size, 4u);
  EXPECT_EQ(spec->max_in_flight, kDefaultEnsemblesInFlight);
  ASSERT_EQ(spec->inputs.size(), 1u);
  EXPECT_EQ(spec->inputs[0].name, "x");
  EXPECT_EQ(spec->inputs[0].data_type, v1::FLOAT32);
  EXPECT_THAT(spec->inputs[0].dims, ElementsAre(3));
  ASSERT_EQ(spec->outputs.size(), 1u);
  EXPECT_EQ(spec->outputs[0].data_type, v1::INT64);
  EXPECT_THAT(spec->outputs[0].dims, ElementsAre(-1));
  ASSERT_EQ(spec->steps.size(), 2u);
  EXPECT_EQ(spec->steps[0].model, "pre");
  EXPECT_EQ(spec->steps[0].version, 0u);
  EXPECT_EQ(spec->steps[1].version, 7u);
  EXPECT_THAT(spec->steps[1].inputs, ElementsAre(Pair("in", "m")));
  EXPECT_THAT(spec->steps[1].outputs, ElementsAre(Pair("out", "y")));
}

TEST(ConfigEnsembleTest, TheBoundOfRequestsIsThatOfTheConfig) {
  const auto spec = ReadEnsembleText(absl::StrReplaceAll(
      kChain, {{"  step [", "  max_inflight_requests: 2 step ["}}));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->max_in_flight, 2u);
}

TEST(ConfigEnsembleTest, EitherFieldMakesAnEnsemble) {
  inference::ModelConfig config;
  EXPECT_FALSE(IsEnsemble(config));
  config.set_platform("ensemble");
  EXPECT_TRUE(IsEnsemble(config));
  config.set_platform("onnxruntime_onnx");
  EXPECT_FALSE(IsEnsemble(config));
  config.mutable_ensemble_scheduling();
  EXPECT_TRUE(IsEnsemble(config));
}

struct RefusedEnsemble {
  const char* from;  // text of the chain that is replaced
  const char* to;
  const char* words;
};

void PrintTo(const RefusedEnsemble& refused, std::ostream* out) {
  *out << refused.to;
}

class RefusedEnsembleTest : public ::testing::TestWithParam<RefusedEnsemble> {};

TEST_P(RefusedEnsembleTest, NamesTheFieldAndWhatToDo) {
  const absl::Status refused =
      ReadEnsembleText(
          absl::StrReplaceAll(kChain, {{GetParam().from, GetParam().to}}))
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(StartsWith("config.pbtxt: "), HasSubstr(GetParam().words)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedEnsembleTest,
    ::testing::Values(
        RefusedEnsemble{"name: \"both\"", "name: \"other\"",
                        "name is \"other\", its folder is \"both\""},
        RefusedEnsemble{"platform: \"ensemble\"", "",
                        "write platform: \"ensemble\""},
        RefusedEnsemble{"platform: \"ensemble\"",
                        "platform: \"ensemble\" backend: \"onnxruntime\"",
                        "backend is \"onnxruntime\""},
        RefusedEnsemble{"platform: \"ensemble\"",
                        "platform: \"ensemble\" default_model_filename: \"m\"",
                        "an ensemble has no file"},
        RefusedEnsemble{"platform: \"ensemble\"",
                        "platform: \"ensemble\" instance_group { }",
                        "instance_group is set"},
        RefusedEnsemble{"platform: \"ensemble\"",
                        "platform: \"ensemble\" response_cache { enable: true "
                        "}",
                        "response_cache.enable is true"},
        RefusedEnsemble{"dims: [ -1 ]", "dims: [ -1 ] label_filename: \"l\"",
                        "write it into the config of the step"},
        RefusedEnsemble{"platform: \"ensemble\"",
                        "platform: \"ensemble\" version_policy { all { } }",
                        "version_policy is set"},
        RefusedEnsemble{"max_batch_size: 4", "max_batch_size: -1",
                        "max_batch_size is -1; write 0 .. 1024"},
        RefusedEnsemble{"max_batch_size: 4", "max_batch_size: 1025",
                        "max_batch_size is 1025"},
        RefusedEnsemble{"  step [", "  max_inflight_requests: 100000 step [",
                        "max_inflight_requests is 100000; the limit is 65536"},
        RefusedEnsemble{"TYPE_FP32", "TYPE_STRING",
                        "input \"x\".data_type is TYPE_STRING"},
        RefusedEnsemble{"dims: [ 3 ]", "dims: [ 0 ]", "input \"x\".dims has 0"},
        RefusedEnsemble{"model_version: -1", "model_version: -2",
                        "ensemble_scheduling.step[0].model_version is -2"},
        RefusedEnsemble{"model_name: \"net\"", "model_name: \"a b\"",
                        "ensemble_scheduling.step[1].model_name"},
        RefusedEnsemble{"value: \"m\"", "value: \"y\"",
                        "ensemble_scheduling: tensor 'y' is given twice"}));

TEST(ConfigEnsembleTest, APlatformWithoutStepsIsRefused) {
  EXPECT_THAT(
      std::string(
          ReadEnsembleText("platform: \"ensemble\"").status().message()),
      HasSubstr("ensemble_scheduling is not set"));
}

}  // namespace
}  // namespace gpupool::server
