#include "server/repository/config_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status CheckText(const std::string& text) {
  inference::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return CheckConfigFields(config);
}

TEST(ConfigFieldsTest, TakesEveryFieldThatIsCarriedOut) {
  EXPECT_TRUE(CheckText("").ok());
  const absl::Status taken = CheckText(R"(
name: "a" platform: "onnxruntime_onnx" backend: "onnxruntime"
default_model_filename: "model.onnx" max_batch_size: 8
version_policy { latest { num_versions: 1 } }
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
instance_group { name: "g" kind: KIND_GPU count: 1 gpus: 0 }
dynamic_batching {
  preferred_batch_size: 4 max_queue_delay_microseconds: 100
  preserve_ordering: true
  default_queue_policy { allow_timeout_override: true max_queue_size: 9 }
}
model_transaction_policy { } response_cache { enable: true }
)");
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_TRUE(CheckText("version_policy { all { } }").ok());
  EXPECT_TRUE(CheckText("version_policy { specific { versions: 2 } }").ok());
}

TEST(ConfigFieldsTest, TakesTheFieldsOfSequences) {
  const absl::Status taken = CheckText(R"(
sequence_batching {
  max_sequence_idle_microseconds: 5
  control_input { name: "a" control {
    kind: CONTROL_SEQUENCE_CORRID int32_false_true: 0 fp32_false_true: 0
    bool_false_true: false data_type: TYPE_INT64 } }
  oldest { max_candidate_sequences: 4 preferred_batch_size: 2
           max_queue_delay_microseconds: 9 preserve_ordering: true }
  state { input_name: "i" output_name: "o" data_type: TYPE_FP32 dims: 1
    initial_state { data_type: TYPE_FP32 dims: 1 data_file: "f" name: "n" } }
})");
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_TRUE(CheckText("sequence_batching { direct { "
                        "max_queue_delay_microseconds: 1 "
                        "minimum_slot_utilization: 0.5 } state { "
                        "initial_state { zero_data: true } } }")
                  .ok());
}

TEST(ConfigFieldsTest, TheMapsOfAStepMayHaveAnyNames) {
  EXPECT_TRUE(CheckText("platform: \"ensemble\" ensemble_scheduling { "
                        "max_inflight_requests: 2 step { model_name: \"a\" "
                        "model_version: -1 input_map { key: \"x\" value: "
                        "\"y\" } output_map { key: \"z\" value: \"w\" } } }")
                  .ok());
}

struct Refused {
  const char* text;
  const char* path;
  const char* remedy;
};

class RefusedFieldTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedFieldTest, IsNamedByItsPathWithARemedy) {
  const absl::Status refused = CheckText(GetParam().text);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << GetParam().text;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(std::string(GetParam().path) + " is not supported; " +
                        GetParam().remedy));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedFieldTest,
    ::testing::Values(
        Refused{"sequence_batching { state { use_growable_memory: true } }",
                "sequence_batching.state[0].use_growable_memory", "remove it"},
        Refused{"sequence_batching { state { use_same_buffer_for_input_output: "
                "true } }",
                "sequence_batching.state[0].use_same_buffer_for_input_output",
                "remove it"},
        Refused{"sequence_batching { iterative_sequence: true }",
                "sequence_batching.iterative_sequence", "remove it"},
        Refused{"ensemble_scheduling { step { model_namespace: \"n\" } }",
                "ensemble_scheduling.step[0].model_namespace", "remove it"},
        Refused{"optimization { }", "optimization", "remove it"},
        Refused{"parameters { key: \"a\" value { } }", "parameters",
                "remove it"},
        Refused{"model_warmup { }", "model_warmup", "remove it"},
        Refused{"model_operations { }", "model_operations", "remove it"},
        Refused{"model_repository_agents { }", "model_repository_agents",
                "remove it"},
        Refused{"runtime: \"r\"", "runtime", "remove it"},
        Refused{"metric_tags { key: \"a\" value: \"b\" }", "metric_tags",
                "remove it"},
        Refused{"model_metrics { }", "model_metrics", "remove it"},
        Refused{"cc_model_filenames { key: \"7.5\" value: \"b\" }",
                "cc_model_filenames", "remove it"},
        Refused{"batch_input { }", "batch_input", "pass"},
        Refused{"batch_output { }", "batch_output", "return"},
        Refused{"input { format: FORMAT_NCHW }", "input[0].format",
                "remove it"},
        Refused{"input { } input { reshape { } }", "input[1].reshape",
                "add a Reshape"},
        Refused{"input { is_shape_tensor: true }", "input[0].is_shape_tensor",
                "remove it"},
        Refused{"input { allow_ragged_batch: true }",
                "input[0].allow_ragged_batch", "pad"},
        Refused{"input { optional: true }", "input[0].optional", "send"},
        Refused{"input { is_non_linear_format_io: true }",
                "input[0].is_non_linear_format_io", "remove it"},
        Refused{"output { reshape { } }", "output[0].reshape", "add a Reshape"},
        Refused{"output { is_shape_tensor: true }", "output[0].is_shape_tensor",
                "remove it"},
        Refused{"output { is_non_linear_format_io: true }",
                "output[0].is_non_linear_format_io", "remove it"}));

INSTANTIATE_TEST_SUITE_P(
    GroupsAndQueues, RefusedFieldTest,
    ::testing::Values(
        Refused{"instance_group { profile: \"p\" }",
                "instance_group[0].profile", "remove it"},
        Refused{"instance_group { rate_limiter { } }",
                "instance_group[0].rate_limiter", "remove it"},
        Refused{"instance_group { passive: true }", "instance_group[0].passive",
                "remove the group"},
        Refused{"instance_group { secondary_devices { } }",
                "instance_group[0].secondary_devices", "remove it"},
        Refused{"instance_group { host_policy: \"p\" }",
                "instance_group[0].host_policy", "remove it"},
        Refused{"dynamic_batching { priority_levels: 2 }",
                "dynamic_batching.priority_levels", "remove it"},
        Refused{"dynamic_batching { default_priority_level: 1 }",
                "dynamic_batching.default_priority_level", "remove it"},
        Refused{"dynamic_batching { priority_queue_policy { key: 1 } }",
                "dynamic_batching.priority_queue_policy",
                "write default_queue_policy"},
        Refused{"dynamic_batching { default_queue_policy { timeout_action: "
                "DELAY } }",
                "dynamic_batching.default_queue_policy.timeout_action",
                "remove it"},
        Refused{"dynamic_batching { default_queue_policy { "
                "default_timeout_microseconds: 5 } }",
                "dynamic_batching.default_queue_policy.default_timeout_"
                "microseconds",
                "let clients send a deadline"}));

TEST(ConfigFieldsTest, SeveralRefusedFieldsComeTogether) {
  const absl::Status refused =
      CheckText("runtime: \"r\" model_warmup { } max_batch_size: 3");
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("runtime is not"), HasSubstr("model_warmup is not"),
            Not(HasSubstr("max_batch_size"))));
}

TEST(ConfigFieldsTest, TheMessageIsBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "input { optional: true } ";
  const absl::Status refused = CheckText(text);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("input[7]"), Not(HasSubstr("input[8]"))));
}

}  // namespace
}  // namespace gpupool::server
