#include "engine/import/onnx/check_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <string>

#include "gpupool/v1/model.pb.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Inputs x[N, S, 2] and mask[N, "P + S"], where w is an initializer that is
// listed as an input, as older files do.
class CheckNamesTest : public ::testing::Test {
 protected:
  CheckNamesTest()
      : model_(ModelOfGraph("(float[N, S, 2] x, float[N, L] mask, float[2] w) "
                            "=> (float[N, S, 2] y, float[M] z) "
                            "<float[2] w = {1, 2}> "
                            "{ y = Add(x, w) z = Relu(w) }")) {
    model_.mutable_graph()
        ->mutable_input(1)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(1)
        ->set_dim_param("P + S");
  }
  std::string Error() {
    const absl::Status status = CheckNames(options_, model_.graph());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  onnx::ModelProto model_;
  v1::OnnxModel options_;
};

TEST_F(CheckNamesTest, NamesOfTheModelAreTaken) {
  (*options_.mutable_dimensions())["N"] = 4;
  // The name is in an expression only.
  (*options_.mutable_dimensions())["P"] = 3;
  // The dimension is in an output only.
  (*options_.mutable_dimensions())["M"] = 2;
  (*options_.mutable_served_dimensions())["S"].add_sizes(8);
  (*options_.mutable_padding())["x"] = 0;
  (*options_.mutable_bound_inputs())["mask"].add_numbers(1);
  options_.add_unbatched_inputs("x");
  options_.add_unbatched_inputs("mask");
  EXPECT_TRUE(CheckNames(options_, model_.graph()).ok())
      << CheckNames(options_, model_.graph());
}

TEST_F(CheckNamesTest, AModelWithoutOptionsIsTaken) {
  EXPECT_TRUE(CheckNames(options_, model_.graph()).ok());
}

TEST_F(CheckNamesTest, AnUnknownDimensionIsRefusedWithThoseThatExist) {
  (*options_.mutable_dimensions())["S"] = 4;
  (*options_.mutable_dimensions())["sequence"] = 4;
  EXPECT_EQ(Error(),
            "--dimension (dimensions): the model has no named dimension "
            "'sequence'; its named dimensions are: 'N', 'S', 'P + S', 'P', "
            "'M'");
}

TEST_F(CheckNamesTest, AllUnknownNamesAreListedInOrder) {
  (*options_.mutable_dimensions())["b"] = 4;
  (*options_.mutable_served_dimensions())["a"].add_sizes(8);
  EXPECT_THAT(Error(), HasSubstr("no named dimension 'a', 'b';"));
}

// An empty name would be the name of every dimension without a name.
TEST_F(CheckNamesTest, AnEmptyNameIsUnknown) {
  (*options_.mutable_dimensions())[""] = 4;
  EXPECT_THAT(Error(), HasSubstr("no named dimension ''"));
}

TEST_F(CheckNamesTest, ADerivedDimensionMustBeDeclared) {
  (*options_.mutable_derived_dimensions())["P + S"] = "P + S";
  EXPECT_TRUE(CheckNames(options_, model_.graph()).ok());
  (*options_.mutable_derived_dimensions())["total"] = "P + S";
  EXPECT_THAT(Error(), HasSubstr("no named dimension 'total'"));
}

TEST_F(CheckNamesTest, ExpressionsMayUseNamesThatTheModelDoesNotHave) {
  (*options_.mutable_derived_dimensions())["P + S"] = "heads * S";
  (*options_.mutable_dimensions())["heads"] = 3;
  EXPECT_TRUE(CheckNames(options_, model_.graph()).ok());
  options_.clear_derived_dimensions();
  EXPECT_THAT(Error(), HasSubstr("no named dimension 'heads'"));
}

TEST_F(CheckNamesTest, AnUnknownInputIsRefusedWithThoseThatExist) {
  options_.add_unbatched_inputs("X");
  EXPECT_EQ(Error(),
            "--unbatched-input (unbatched_inputs): the model has no input 'X'; "
            "its inputs are: 'x', 'mask'");
  options_.clear_unbatched_inputs();
  (*options_.mutable_padding())["ids"] = 0;
  EXPECT_THAT(Error(), HasSubstr("--pad (padding): the model has no input "
                                 "'ids'; its inputs are: 'x', 'mask'"));
  options_.clear_padding();
  (*options_.mutable_bound_inputs())["shape"].add_numbers(1);
  EXPECT_THAT(Error(), AllOf(HasSubstr("--bound (bound_inputs)"),
                             HasSubstr("no input 'shape'")));
}

TEST_F(CheckNamesTest, AnInitializerIsAnInputOnlyIfItIsBound) {
  options_.add_unbatched_inputs("w");
  EXPECT_THAT(Error(), HasSubstr("no input 'w'"));
  (*options_.mutable_bound_inputs())["w"].add_numbers(1);
  EXPECT_TRUE(CheckNames(options_, model_.graph()).ok());
}

TEST_F(CheckNamesTest, LongListsAreCut) {
  for (int i = 0; i < 40; ++i) {
    model_.mutable_graph()->add_input()->set_name("in" + std::to_string(i));
  }
  options_.add_unbatched_inputs("none");
  EXPECT_THAT(Error(),
              AllOf(HasSubstr("'in29' and 10 more"), Not(HasSubstr("'in30'"))));
}

TEST_F(CheckNamesTest, AModelWithoutNamedDimensionsSaysSo) {
  model_ = ModelOfGraph("(float[2] x) => (float[2] y) { y = Relu(x) }");
  (*options_.mutable_dimensions())["S"] = 4;
  EXPECT_THAT(Error(), HasSubstr("'S'; its named dimensions are: none"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
