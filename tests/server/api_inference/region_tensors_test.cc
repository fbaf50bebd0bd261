#include "server/api/inference/region_tensors.h"

#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/regions/region_files.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using InputTensor = inference::ModelInferRequest::InferInputTensor;
using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

void SetPlace(const std::string& region, int64_t offset, int64_t bytes,
              ParameterMap* parameters) {
  (*parameters)["shared_memory_region"].set_string_param(region);
  (*parameters)["shared_memory_offset"].set_int64_param(offset);
  (*parameters)["shared_memory_byte_size"].set_int64_param(bytes);
}

class RegionTensorsTest : public ::testing::Test {
 protected:
  RegionTensorsTest() {
    files_.Put("/a", "0123456789abcdef");
    EXPECT_TRUE(
        book_
            .Register(local_,
                      {.name = "r", .key = "/a", .offset = 4, .bytes = 12})
            .ok());
  }

  InputTensor* AddPlacedInput(int64_t offset, int64_t bytes,
                              int64_t elements = 4) {
    InputTensor* input = request_.add_inputs();
    input->set_name("x");
    input->set_datatype("UINT8");
    input->add_shape(elements);
    SetPlace("r", offset, bytes, input->mutable_parameters());
    return input;
  }
  void ExpectNoPlaces(absl::StatusCode code, const std::string& text) {
    const auto places = FindPlaces(request_, local_, book_);
    EXPECT_EQ(places.status().code(), code) << places.status();
    EXPECT_THAT(std::string(places.status().message()), HasSubstr(text));
  }
  // Reads the first input.
  absl::StatusOr<std::string> ReadInput() {
    const auto places = FindPlaces(request_, local_, book_);
    if (!places.ok()) return places.status();
    std::string copy;
    const auto read =
        ReadPlaced("'m'", request_.inputs(0), *places->Input(0), &copy);
    if (!read.ok()) return read.status();
    return copy;
  }
  // Adds an output that has these bytes to the request and to the response.
  void AddOutput(const std::string& raw, int64_t offset, int64_t bytes) {
    SetPlace("r", offset, bytes, request_.add_outputs()->mutable_parameters());
    response_.add_outputs()->set_name("y");
    response_.add_raw_output_contents(raw);
  }
  absl::Status WriteOutputs() {
    const auto places = FindPlaces(request_, local_, book_);
    if (!places.ok()) return places.status();
    return WritePlaced(places->outputs, &response_);
  }

  RegionFiles files_;
  const RegionCaller local_{.tenant = "", .user = 1000};
  RegionBook book_{{}, files_.folder()};
  inference::ModelInferRequest request_;
  inference::ModelInferResponse response_;
};

TEST_F(RegionTensorsTest, ARequestWithoutRegionsHasNoPlaces) {
  InputTensor* input = request_.add_inputs();
  (*input->mutable_parameters())["shared_memory_offset"].set_string_param("x");
  (*request_.add_outputs()->mutable_parameters())["shared_memory_byte_size"]
      .set_int64_param(-1);
  EXPECT_FALSE(NamesRegions(request_));
  const auto places = FindPlaces(request_, local_, book_);
  ASSERT_TRUE(places.ok()) << places.status();
  EXPECT_EQ(places->Input(0), nullptr);
  EXPECT_TRUE(places->outputs.empty());
  EXPECT_EQ(places->InputBytes(), 0u);
}

TEST_F(RegionTensorsTest, AnInputIsReadFromItsPart) {
  AddPlacedInput(2, 4);
  EXPECT_TRUE(NamesRegions(request_));
  EXPECT_EQ(FindPlaces(request_, local_, book_)->InputBytes(), 4u);
  EXPECT_EQ(*ReadInput(), "6789");
}

TEST_F(RegionTensorsTest, WithoutAnOffsetAPartBeginsWithTheRegion) {
  auto* parameters = AddPlacedInput(0, 4)->mutable_parameters();
  parameters->erase("shared_memory_offset");
  (*parameters)["shared_memory_byte_size"].set_uint64_param(4);
  EXPECT_EQ(*ReadInput(), "4567");
}

TEST_F(RegionTensorsTest, PartsBeyondTheRegionAreRefused) {
  for (const auto& [offset, bytes] :
       {std::pair(int64_t{0}, int64_t{13}), std::pair(int64_t{12}, int64_t{1}),
        std::pair(int64_t{13}, int64_t{0}), std::pair(kLargest, int64_t{4}),
        std::pair(int64_t{4}, kLargest), std::pair(kLargest, kLargest)}) {
    request_.Clear();
    AddPlacedInput(offset, bytes);
    ExpectNoPlaces(absl::StatusCode::kInvalidArgument, "'r' has 12 bytes");
  }
  request_.Clear();
  auto& parameters = *AddPlacedInput(0, 4)->mutable_parameters();
  parameters["shared_memory_offset"].set_uint64_param(
      std::numeric_limits<uint64_t>::max() - 3);
  ExpectNoPlaces(absl::StatusCode::kInvalidArgument, "'r' has 12 bytes");
}

TEST_F(RegionTensorsTest, ParametersOfOtherTypesAreRefused) {
  auto& parameters = *AddPlacedInput(0, 4)->mutable_parameters();
  parameters["shared_memory_byte_size"].set_int64_param(-1);
  ExpectNoPlaces(absl::StatusCode::kInvalidArgument,
                 "'shared_memory_byte_size' parameter");
  parameters["shared_memory_byte_size"].set_string_param("4");
  ExpectNoPlaces(absl::StatusCode::kInvalidArgument,
                 "'shared_memory_byte_size' parameter");
  parameters.erase("shared_memory_byte_size");
  ExpectNoPlaces(absl::StatusCode::kInvalidArgument,
                 "without 'shared_memory_byte_size'");
  parameters["shared_memory_region"].set_int64_param(1);
  ExpectNoPlaces(absl::StatusCode::kInvalidArgument, "expected string");
}

TEST_F(RegionTensorsTest, UnknownRegionsAreNotFound) {
  SetPlace("s", 0, 4, AddPlacedInput(0, 4)->mutable_parameters());
  ExpectNoPlaces(absl::StatusCode::kNotFound, "'s'");
}

TEST_F(RegionTensorsTest, TheBytesOfAnInputAreThoseOfItsShape) {
  AddPlacedInput(0, 4, 3);
  EXPECT_THAT(std::string(ReadInput().status().message()),
              HasSubstr("shared_memory_byte_size of 4; its datatype and its "
                        "shape take 3"));
}

TEST_F(RegionTensorsTest, ShapesThatNoModelHasReadNothing) {
  AddPlacedInput(0, 4, -4);
  EXPECT_EQ(*ReadInput(), "");
  request_.mutable_inputs(0)->set_shape(0, kLargest);
  request_.mutable_inputs(0)->add_shape(kLargest);
  EXPECT_EQ(*ReadInput(), "");
  request_.mutable_inputs(0)->set_datatype("BYTES");
  EXPECT_EQ(*ReadInput(), "");
}

TEST_F(RegionTensorsTest, TextsAreAllBytesOfTheirPart) {
  InputTensor* const input = AddPlacedInput(2, 7, 1);
  input->set_datatype("BYTES");
  EXPECT_EQ(*ReadInput(), "6789abc");
  input->set_shape(0, 2);
  EXPECT_THAT(std::string(ReadInput().status().message()),
              HasSubstr("shared_memory_byte_size of 7; its datatype and its "
                        "shape take at least 8"));
}

TEST_F(RegionTensorsTest, AnInputHasContentsOrAPlace) {
  AddPlacedInput(0, 4)->mutable_contents()->add_uint_contents(1);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadInput().status()));
}

TEST_F(RegionTensorsTest, ATruncatedRegionIsAnErrorOfTheRequest) {
  AddPlacedInput(0, 4);
  files_.Resize("/a", 6);
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadInput().status()));
}

TEST_F(RegionTensorsTest, ManyLargeInputsAddUpWithoutOverflow) {
  RegionPlaces places;
  for (int i = 0; i < 3; ++i) {
    RegionPart part;
    part.bytes = std::numeric_limits<uint64_t>::max() / 2;
    places.inputs.emplace_back(part);
  }
  EXPECT_EQ(places.InputBytes(), std::numeric_limits<uint64_t>::max());
}

TEST_F(RegionTensorsTest, AnOutputIsWrittenAndHasThePlaceInsteadOfData) {
  AddOutput("WXYZ", 1, 6);
  ASSERT_TRUE(WriteOutputs().ok());
  EXPECT_EQ(files_.Get("/a"), "01234WXYZ9abcdef");
  EXPECT_EQ(response_.raw_output_contents(0), "");
  const ParameterMap& parameters = response_.outputs(0).parameters();
  EXPECT_EQ(parameters.at("shared_memory_region").string_param(), "r");
  EXPECT_EQ(parameters.at("shared_memory_offset").int64_param(), 1);
  EXPECT_EQ(parameters.at("shared_memory_byte_size").int64_param(), 6);
}

TEST_F(RegionTensorsTest, AnOutputThatDoesNotFitLeavesAllRegionsAsTheyAre) {
  AddOutput("WXYZ", 0, 4);
  AddOutput("WXYZ", 4, 3);
  const absl::Status written = WriteOutputs();
  EXPECT_TRUE(absl::IsInternal(written)) << written;
  EXPECT_THAT(std::string(written.message()),
              HasSubstr("shared memory size specified with the request for "
                        "output 'y' (3 bytes) should be at least 4 bytes"));
  EXPECT_EQ(files_.Get("/a"), "0123456789abcdef");
}

}  // namespace
}  // namespace gpupool::server
