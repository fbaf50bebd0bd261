#include "engine/check_model.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckModelTest : public ::testing::Test {
 protected:
  // Returns the report about an ONNX file with this graph.
  v1::ModelCheck Check(const std::string& graph) {
    Write(onnx_import::ModelOfGraph(graph).SerializeAsString());
    auto check = CheckModel(OnnxOptions());
    EXPECT_TRUE(check.ok()) << check.status();
    return check.ok() ? *check : v1::ModelCheck();
  }
  void Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  CheckOptions OnnxOptions() const {
    CheckOptions options;
    options.spec.mutable_onnx()->set_file(path_);
    return options;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/model.onnx";
};

constexpr char kLinear[] =
    "(float[N, 2] x) => (float[N, 3] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}> { "
    "y = MatMul(x, w) }";

TEST_F(CheckModelTest, NamesThatTheModelDoesNotHaveAreRefused) {
  Write(onnx_import::ModelOfGraph(kLinear).SerializeAsString());
  CheckOptions options = OnnxOptions();
  (*options.spec.mutable_onnx()->mutable_dimensions())["length"] = 2;
  const auto check = CheckModel(options);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(check->serving().refused(), HasSubstr("'length'"));
  EXPECT_THAT(check->training().refused(), HasSubstr("'length'"));
}

TEST_F(CheckModelTest, AModelThatServesAndTrains) {
  const v1::ModelCheck check = Check(kLinear);
  EXPECT_EQ(check.serving().refused(), "");
  EXPECT_EQ(check.serving().max_batch_size(), 32u);
  EXPECT_EQ(check.serving().plan().parameters(), 6u);
  EXPECT_GT(check.serving().plan().inference().peak(), 0u);
  EXPECT_EQ(check.training().refused(), "");
  EXPECT_EQ(check.training().batch_size(), 32u);
  // The weights' momentum.
  EXPECT_GE(check.training().bytes().optimizer(), 24u);
  EXPECT_GT(check.training().flops(), 0u);
  EXPECT_EQ(check.onnx().operators(0).name(), "MatMul");
  EXPECT_THAT(check.warnings(), IsEmpty());
}

TEST_F(CheckModelTest, AnUnknownOperatorIsNamedNextToTheFacts) {
  const v1::ModelCheck check = Check(
      "(float[N, 2] x) => (float[N, 2] y) { y = NoSuchOperator <a = 1>(x) }");
  EXPECT_THAT(check.serving().refused(), HasSubstr("NoSuchOperator 'y'"));
  EXPECT_EQ(check.training().refused(), check.serving().refused());
  EXPECT_FALSE(check.serving().has_plan());
  EXPECT_EQ(check.onnx().operators_size(), 1);
}

TEST_F(CheckModelTest, AModelWithoutWeightsServesOnly) {
  const v1::ModelCheck check =
      Check("(float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }");
  EXPECT_TRUE(check.serving().has_plan());
  EXPECT_THAT(check.training().refused(), HasSubstr("no weights"));
  EXPECT_FALSE(check.training().has_bytes());
}

TEST_F(CheckModelTest, JobsTrainModelsWithSeveralInputs) {
  const v1::ModelCheck check = Check(
      "(float[N, 2] x, float[N, 2] z) => (float[N, 3] y) <float[2, 3] w = {1, "
      "2, 3, 4, 5, 6}> { s = Add(x, z) y = MatMul(s, w) }");
  EXPECT_TRUE(check.serving().has_plan());
  EXPECT_EQ(check.training().refused(), "");
  EXPECT_TRUE(check.training().has_bytes());
}

TEST_F(CheckModelTest, AFixedBatchIsServedAloneAndNotTrained) {
  const v1::ModelCheck check = Check(
      "(float[1, 2] x) => (float[1, 2] y) <float[2] one = {1, 1}, float[2] "
      "zero = {0, 0}> { a = LayerNormalization(x, one, zero) y = "
      "LayerNormalization(a, one, zero) }");
  EXPECT_EQ(check.serving().max_batch_size(), 1u);
  EXPECT_THAT(check.warnings(), Contains(HasSubstr("fixed size 1")).Times(1));
  EXPECT_THAT(check.training().refused(), HasSubstr("no batch"));
}

TEST_F(CheckModelTest, AnOptionWithANameThatTheModelDoesNotHaveIsRefused) {
  Write(onnx_import::ModelOfGraph(kLinear).SerializeAsString());
  CheckOptions options = OnnxOptions();
  options.spec.mutable_onnx()->add_unbatched_inputs("z");
  const auto check = CheckModel(options);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(check->serving().refused(),
              HasSubstr("no input 'z'; its inputs are: 'x'"));
  EXPECT_EQ(check->training().refused(), check->serving().refused());
}

TEST_F(CheckModelTest, LayersNeedNoFile) {
  CheckOptions options;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "input_shape: 4 layers { dense { units: 3 } }", &options.spec));
  const auto check = CheckModel(options);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_FALSE(check->has_onnx());
  EXPECT_EQ(check->serving().plan().parameters(), 15u);
  EXPECT_TRUE(check->training().has_bytes());
}

TEST_F(CheckModelTest, WhatIsNoModelIsAnError) {
  Write("no model");
  EXPECT_EQ(CheckModel(OnnxOptions()).status().code(),
            absl::StatusCode::kInvalidArgument);
  CheckOptions missing;
  missing.spec.mutable_onnx()->set_file(folder_.path() + "/none.onnx");
  EXPECT_EQ(CheckModel(missing).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::engine
