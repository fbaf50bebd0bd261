#include "server/repository/config_tensors.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

using google::protobuf::TextFormat;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kBatched[] = R"(
inputs { name: "x" data_type: FLOAT32 shape: [-1, 4] }
outputs { name: "y" data_type: INT64 shape: [-1] }
)";
constexpr char kSingle[] = R"(
inputs { name: "x" data_type: FLOAT32 shape: [1, 4] }
outputs { name: "y" data_type: FLOAT32 shape: [2] }
)";

absl::Status CheckTexts(const std::string& config_text,
                        const std::string& plan_text) {
  inference::ModelConfig config;
  v1::Plan plan;
  EXPECT_TRUE(TextFormat::ParseFromString(config_text, &config));
  EXPECT_TRUE(TextFormat::ParseFromString(plan_text, &plan));
  return CheckConfigTensors(config, plan);
}

std::string TensorRefusal(const std::string& config, const std::string& plan) {
  const absl::Status refused = CheckTexts(config, plan);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << config;
  return std::string(refused.message());
}

TEST(ConfigTensorsTest, NothingIsListed) {
  EXPECT_TRUE(CheckTexts("", kBatched).ok());
  EXPECT_TRUE(CheckTexts("max_batch_size: 8", kBatched).ok());
}

TEST(ConfigTensorsTest, DimsLeaveTheBatchOutWithAMaxBatchSize) {
  const std::string tensors =
      "input { name: \"x\" data_type: TYPE_FP32 dims: 4 }"
      "output { name: \"y\" data_type: TYPE_INT64 }";
  const absl::Status taken =
      CheckTexts("max_batch_size: 8 " + tensors, kBatched);
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_THAT(TensorRefusal(tensors, kBatched),
              AllOf(HasSubstr("input \"x\".dims is [4]"),
                    HasSubstr("the file has [-1, 4]")));
}

TEST(ConfigTensorsTest, WithoutAMaxBatchSizeDimsAreTheWholeShape) {
  EXPECT_TRUE(
      CheckTexts("input { name: \"x\" data_type: TYPE_FP32 dims: [-1, 4] }",
                 kBatched)
          .ok());
  EXPECT_TRUE(
      CheckTexts("input { name: \"x\" data_type: TYPE_FP32 dims: [1, 4] }",
                 kSingle)
          .ok());
}

TEST(ConfigTensorsTest, ADimensionOfSeveralSizesIsNoBatch) {
  const std::string plan =
      "inputs { name: \"x\" data_type: FLOAT32 shape: [-1, 4] "
      "variable { axis: 0 name: \"n\" maximum: 9 } }";
  EXPECT_THAT(TensorRefusal("max_batch_size: 2", plan),
              HasSubstr("max_batch_size is 2"));
}

TEST(ConfigTensorsTest, MismatchesNameBothValues) {
  EXPECT_THAT(
      TensorRefusal(
          "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 "
          "dims: [3, 5] }",
          kBatched),
      AllOf(HasSubstr("[3, 5]"), HasSubstr("[4] after the batch dimension")));
  EXPECT_THAT(
      TensorRefusal("input { name: \"x\" data_type: TYPE_FP16 dims: [1, 4] }",
                    kSingle),
      AllOf(HasSubstr("TYPE_FP16"), HasSubstr("TYPE_FP32")));
  EXPECT_THAT(
      TensorRefusal("output { name: \"z\" }", kSingle),
      AllOf(HasSubstr("output \"z\" is not in the file"), HasSubstr("\"y\"")));
  EXPECT_THAT(
      TensorRefusal("max_batch_size: 8", kSingle),
      AllOf(HasSubstr("max_batch_size is 8"), HasSubstr("max_batch_size: 0")));
}

TEST(ConfigTensorsTest, ControlsAndStatesAreNoInputsOfClients) {
  const std::string plan = R"(
inputs { name: "x" data_type: FLOAT32 shape: [-1, 4] }
inputs { name: "start" data_type: FLOAT32 shape: [-1, 1] }
inputs { name: "s" data_type: FLOAT32 shape: [-1, 2] }
outputs { name: "y" data_type: FLOAT32 shape: [-1, 4] }
outputs { name: "t" data_type: FLOAT32 shape: [-1, 2] }
)";
  const std::string config =
      "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: 4 } "
      "output { name: \"y\" data_type: TYPE_FP32 dims: 4 } "
      "sequence_batching { control_input { name: \"start\" } "
      "state { input_name: \"s\" output_name: \"t\" data_type: TYPE_FP32 ";
  EXPECT_TRUE(CheckTexts(config + "dims: 2 } }", plan).ok());
  // A state may be an output as well.
  EXPECT_TRUE(CheckTexts(config + "dims: 2 } } output { name: \"t\" data_type: "
                                  "TYPE_FP32 dims: 2 }",
                         plan)
                  .ok());
  EXPECT_THAT(
      TensorRefusal(config + "dims: 3 } }", plan),
      AllOf(HasSubstr("sequence_batching.state of input \"s\".dims is [3]"),
            HasSubstr("[2] after the batch dimension")));
  EXPECT_THAT(TensorRefusal(config + "dims: 2 } } input { name: \"z\" }", plan),
              HasSubstr("input \"z\" is not in the file, which has \"x\", "
                        "\"start\", \"s\""));
}

// The file has them, so the refusal must not say that it does not.
TEST(ConfigTensorsTest, AListedControlOrStateIsRefusedAsSuch) {
  const std::string plan = R"(
inputs { name: "x" data_type: FLOAT32 shape: [-1, 2] }
inputs { name: "before" data_type: FLOAT32 shape: [-1, 2] }
outputs { name: "after" data_type: FLOAT32 shape: [-1, 2] }
)";
  const std::string x =
      "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: 2 } ";
  EXPECT_THAT(
      TensorRefusal(x + "sequence_batching { state { input_name: \"before\" "
                        "output_name: \"after\" } state { input_name: \"x\" "
                        "output_name: \"after\" } }",
                    plan),
      AllOf(HasSubstr("input \"x\" is the input of a state "
                      "(sequence_batching.state[1])"),
            HasSubstr("no input of clients; remove it from input")));
  EXPECT_THAT(
      TensorRefusal(x + "sequence_batching { control_input { name: \"x\" } "
                        "state { input_name: \"before\" } }",
                    plan),
      AllOf(HasSubstr("input \"x\" is a control "
                      "(sequence_batching.control_input[0])"),
            HasSubstr("no input of clients; remove it from input")));
}

TEST(ConfigTensorsTest, AListNeedsNoControlsAndNoStates) {
  const std::string plan =
      "inputs { name: \"a\" data_type: FLOAT32 shape: 1 } "
      "inputs { name: \"b\" data_type: FLOAT32 shape: 1 } "
      "inputs { name: \"s\" data_type: FLOAT32 shape: 1 }";
  EXPECT_THAT(
      TensorRefusal("input { name: \"a\" data_type: TYPE_FP32 dims: 1 } "
                    "sequence_batching { state { input_name: \"s\" } }",
                    plan),
      HasSubstr("lists 1 tensors, the file has 2 that are no controls and no "
                "states: \"a\", \"b\"; list all or none"));
}

TEST(ConfigTensorsTest, AListIsWholeAndHasNothingTwice) {
  const std::string two =
      "inputs { name: \"a\" data_type: FLOAT32 shape: 1 } "
      "inputs { name: \"b\" data_type: FLOAT32 shape: 1 }";
  const std::string a = "input { name: \"a\" data_type: TYPE_FP32 dims: 1 } ";
  EXPECT_THAT(TensorRefusal(a, two),
              AllOf(HasSubstr("lists 1 tensors, the file has 2"),
                    HasSubstr("\"a\", \"b\"")));
  EXPECT_THAT(TensorRefusal(a + a, two), HasSubstr("listed twice"));
}

}  // namespace
}  // namespace gpupool::server
