#include "server/http/rest/rest_generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns a model with an INT32 input "x" of this shape.
inference::ModelMetadataResponse ModelOf(const std::vector<int64_t>& shape) {
  inference::ModelMetadataResponse model;
  model.set_name("m");
  auto* input = model.add_inputs();
  input->set_name("x");
  input->set_datatype("INT32");
  for (const int64_t size : shape) input->add_shape(size);
  return model;
}

absl::StatusOr<inference::ModelInferRequest> Read(
    const std::vector<int64_t>& shape, absl::string_view body) {
  const auto wire = WireOfGenerate(ModelOf(shape), "3", body);
  if (!wire.ok()) return wire.status();
  inference::ModelInferRequest request;
  EXPECT_TRUE(request.ParseFromString(*wire));
  return request;
}

std::vector<int64_t> ShapeOfFirst(
    const absl::StatusOr<inference::ModelInferRequest>& request) {
  EXPECT_TRUE(request.ok()) << request.status();
  if (!request.ok() || request->inputs().empty()) return {-1};
  return {request->inputs(0).shape().begin(), request->inputs(0).shape().end()};
}

TEST(RestGenerateTest, InputsAreFoundByName) {
  const auto request = Read({-1}, R"({"x": [1, -2], "id": "a"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model_name(), "m");
  EXPECT_EQ(request->model_version(), "3");
  EXPECT_EQ(request->id(), "a");
  EXPECT_EQ(request->inputs(0).datatype(), "INT32");
  int32_t values[2];
  ASSERT_EQ(request->raw_input_contents(0).size(), sizeof(values));
  std::memcpy(values, request->raw_input_contents(0).data(), sizeof(values));
  EXPECT_THAT(values, ElementsAre(1, -2));
}

TEST(RestGenerateTest, AScalarOrAFlatListTakesTheShapeOfTheModel) {
  EXPECT_THAT(ShapeOfFirst(Read({}, R"({"x": 1})")), IsEmpty());
  EXPECT_THAT(ShapeOfFirst(Read({-1}, R"({"x": 1})")), ElementsAre(1));
  EXPECT_THAT(ShapeOfFirst(Read({-1}, R"({"x": []})")), ElementsAre(0));
  EXPECT_THAT(ShapeOfFirst(Read({-1, 2}, R"({"x": [1, 2]})")),
              ElementsAre(1, 2));
  EXPECT_THAT(ShapeOfFirst(Read({-1, 2}, R"({"x": [1, 2, 3, 4]})")),
              ElementsAre(2, 2));
  EXPECT_THAT(ShapeOfFirst(Read({-1, -1}, R"({"x": [1, 2, 3]})")),
              ElementsAre(1, 3));
}

TEST(RestGenerateTest, ListsInListsHaveTheirOwnShape) {
  EXPECT_THAT(ShapeOfFirst(Read({-1, -1}, R"({"x": [[1], [2]]})")),
              ElementsAre(2, 1));
  EXPECT_THAT(ShapeOfFirst(Read({-1, 2, 1}, R"({"x": [[1], [2]]})")),
              ElementsAre(1, 2, 1));
}

TEST(RestGenerateTest, OtherKeysAreParameters) {
  const auto request =
      Read({1}, R"({"x": 1, "a": 2, "parameters": {"b": true, "c": "d"}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->parameters().at("a").int64_param(), 2);
  EXPECT_TRUE(request->parameters().at("b").bool_param());
  EXPECT_EQ(request->parameters().at("c").string_param(), "d");
}

TEST(RestGenerateTest, AWrongBodyIsRefusedByName) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"x": [1, 2, 3]})", "'x' has 3 elements"},
      {R"({"x": [[1, 2], [3]]})", "lists in the shape of the tensor"},
      {R"({"x": [1, [2]]})", "lists in the shape of the tensor"},
      {R"({"x": [1.5, 2]})", "'x'"},
      {R"({"x": [{}, 2]})", "an object"},
      {R"({"id": 1})", "'id' takes a string"},
      {R"({"y": [1]})", "'y' is no input of model 'm'"},
      {R"({"parameters": 1})", "'parameters' takes an object"},
      {"[1]", "the body"}};
  for (const auto& [body, text] : wrong) {
    const auto request = Read({2}, body);
    EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << body;
    EXPECT_THAT(std::string(request.status().message()), HasSubstr(text));
  }
}

TEST(RestGenerateTest, OutputsAreScalarsOrFlatLists) {
  inference::ModelInferResponse response;
  response.set_model_name("m");
  response.set_model_version("1");
  for (const int count : {1, 2}) {
    auto* output = response.add_outputs();
    output->set_name(absl::StrCat("y", count));
    output->set_datatype("UINT8");
    output->add_shape(1);
    output->add_shape(count);
    response.add_raw_output_contents(std::string(count, '\5'));
  }
  const auto json = GenerateJson(response);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json,
            R"({"model_name":"m","model_version":"1","y1":5,"y2":[5,5]})");
  response.set_id("i");
  EXPECT_THAT(*GenerateJson(response), HasSubstr(R"("id":"i")"));
}

TEST(RestGenerateTest, AnEmptyResponseIsFinalOnlyIfItSaysSo) {
  inference::ModelInferResponse response;
  EXPECT_FALSE(IsEmptyFinal(response));
  (*response.mutable_parameters())["triton_final_response"].set_bool_param(
      true);
  EXPECT_TRUE(IsEmptyFinal(response));
  response.add_outputs();
  EXPECT_FALSE(IsEmptyFinal(response));
}

}  // namespace
}  // namespace gpupool::server
