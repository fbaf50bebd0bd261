#include "server/api/inference/request_tensors.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/regions/region_files.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using InputTensor = inference::ModelInferRequest::InferInputTensor;

InputTensor* AddInput(inference::ModelInferRequest* request,
                      const std::string& name, const std::string& type,
                      int64_t elements) {
  InputTensor* input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(type);
  input->add_shape(1);
  input->add_shape(elements);
  return input;
}

template <typename T>
std::vector<T> Values(const TensorView& view) {
  std::vector<T> values(view.bytes.size() / sizeof(T));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

class RequestTensorsTest : public ::testing::Test {
 protected:
  void ExpectError(absl::StatusCode code, const std::string& text) {
    const auto tensors = ViewInputs("'m' version 1", request_);
    EXPECT_EQ(tensors.status().code(), code) << tensors.status();
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(text));
  }
  inference::ModelInferRequest request_;
};

TEST_F(RequestTensorsTest, RawContentsAreViewedWhereTheyLie) {
  AddInput(&request_, "x", "FP32", 2);
  request_.add_raw_input_contents("01234567");
  const auto tensors = ViewInputs("'m' version 1", request_);
  ASSERT_TRUE(tensors.ok());
  EXPECT_EQ(static_cast<const void*>(tensors->inputs[0].bytes.data()),
            request_.raw_input_contents(0).data());
  EXPECT_THAT(tensors->inputs[0].shape, ElementsAre(1, 2));
}

TEST_F(RequestTensorsTest, WideTypedContentsAreViewedWhereTheyLie) {
  InputTensor* input = AddInput(&request_, "x", "FP32", 2);
  input->mutable_contents()->add_fp32_contents(1.5f);
  input->mutable_contents()->add_fp32_contents(-2);
  const auto tensors = ViewInputs("'m' version 1", request_);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(static_cast<const void*>(tensors->inputs[0].bytes.data()),
            input->contents().fp32_contents().data());
  EXPECT_THAT(Values<float>(tensors->inputs[0]), ElementsAre(1.5f, -2));
}

TEST_F(RequestTensorsTest, EveryTypedDatatypeIsRead) {
  AddInput(&request_, "a", "FP64", 1)->mutable_contents()->add_fp64_contents(2);
  AddInput(&request_, "b", "INT32", 1)
      ->mutable_contents()
      ->add_int_contents(-3);
  AddInput(&request_, "c", "INT64", 1)
      ->mutable_contents()
      ->add_int64_contents(int64_t{1} << 40);
  AddInput(&request_, "d", "BOOL", 1)
      ->mutable_contents()
      ->add_bool_contents(true);
  AddInput(&request_, "e", "INT8", 1)->mutable_contents()->add_int_contents(-8);
  AddInput(&request_, "f", "UINT8", 1)
      ->mutable_contents()
      ->add_uint_contents(200);
  AddInput(&request_, "g", "INT16", 1)
      ->mutable_contents()
      ->add_int_contents(-32768);
  AddInput(&request_, "h", "UINT16", 1)
      ->mutable_contents()
      ->add_uint_contents(65535);
  AddInput(&request_, "i", "UINT32", 1)
      ->mutable_contents()
      ->add_uint_contents(4294967295u);
  AddInput(&request_, "j", "UINT64", 1)
      ->mutable_contents()
      ->add_uint64_contents(UINT64_MAX);
  const auto tensors = ViewInputs("'m' version 1", request_);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const auto& inputs = tensors->inputs;
  EXPECT_THAT(Values<double>(inputs[0]), ElementsAre(2));
  EXPECT_THAT(Values<int32_t>(inputs[1]), ElementsAre(-3));
  EXPECT_THAT(Values<int64_t>(inputs[2]), ElementsAre(int64_t{1} << 40));
  EXPECT_THAT(Values<uint8_t>(inputs[3]), ElementsAre(1));
  EXPECT_THAT(Values<int8_t>(inputs[4]), ElementsAre(-8));
  EXPECT_THAT(Values<uint8_t>(inputs[5]), ElementsAre(200));
  EXPECT_THAT(Values<int16_t>(inputs[6]), ElementsAre(-32768));
  EXPECT_THAT(Values<uint16_t>(inputs[7]), ElementsAre(65535));
  EXPECT_THAT(Values<uint32_t>(inputs[8]), ElementsAre(4294967295u));
  EXPECT_THAT(Values<uint64_t>(inputs[9]), ElementsAre(UINT64_MAX));
}

TEST_F(RequestTensorsTest, NarrowValuesOutOfRangeAreRefused) {
  AddInput(&request_, "x", "INT8", 1)
      ->mutable_contents()
      ->add_int_contents(128);
  ExpectError(absl::StatusCode::kInvalidArgument,
              "value 128 in the contents of input 'x' does not fit INT8");
  request_.Clear();
  AddInput(&request_, "x", "UINT8", 1)
      ->mutable_contents()
      ->add_uint_contents(256);
  ExpectError(absl::StatusCode::kInvalidArgument, "does not fit UINT8");
  request_.Clear();
  AddInput(&request_, "x", "INT16", 1)
      ->mutable_contents()
      ->add_int_contents(-32769);
  ExpectError(absl::StatusCode::kInvalidArgument, "does not fit INT16");
  request_.Clear();
  AddInput(&request_, "x", "UINT16", 1)
      ->mutable_contents()
      ->add_uint_contents(65536);
  ExpectError(absl::StatusCode::kInvalidArgument, "does not fit UINT16");
}

TEST_F(RequestTensorsTest, UnsignedNumbersTravelInUnsignedFields) {
  for (const char* type : {"UINT16", "UINT32", "UINT64"}) {
    request_.Clear();
    AddInput(&request_, "x", type, 1)->mutable_contents()->add_int_contents(1);
    ExpectError(absl::StatusCode::kInvalidArgument,
                "unexpected explicit tensor data for input tensor 'x'");
  }
}

TEST_F(RequestTensorsTest, RawAndTypedTogetherAreRefused) {
  AddInput(&request_, "x", "FP32", 1)->mutable_contents()->add_fp32_contents(1);
  request_.add_raw_input_contents("0123");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "contents field must not be specified when using "
              "raw_input_contents for 'x' for model 'm' version 1");
}

TEST_F(RequestTensorsTest, MissingDataIsNamed) {
  AddInput(&request_, "x", "FP32", 1);
  ExpectError(absl::StatusCode::kInvalidArgument,
              "unable to find data for input tensor 'x'");
  AddInput(&request_, "y", "FP32", 1);
  request_.add_raw_input_contents("0123");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "unable to find data for input tensor 'y'");
}

TEST_F(RequestTensorsTest, SurplusRawEntriesAreRefused) {
  AddInput(&request_, "x", "FP32", 1);
  request_.add_raw_input_contents("0123");
  request_.add_raw_input_contents("0123");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "2 raw_input_contents for 1 input");
}

TEST_F(RequestTensorsTest, TheWrongTypedFieldIsRefused) {
  AddInput(&request_, "x", "FP32", 1)->mutable_contents()->add_int_contents(1);
  ExpectError(absl::StatusCode::kInvalidArgument,
              "unexpected explicit tensor data for input tensor 'x'");
  request_.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ExpectError(absl::StatusCode::kInvalidArgument,
              "unexpected explicit tensor data");
}

TEST_F(RequestTensorsTest, HalfPrecisionTravelsRawOnly) {
  AddInput(&request_, "x", "FP16", 1)->mutable_contents()->add_fp32_contents(1);
  ExpectError(absl::StatusCode::kInvalidArgument,
              "must be sent in raw_input_contents");
}

TEST_F(RequestTensorsTest, TextsArePackedWithTheirLengths) {
  InputTensor* input = AddInput(&request_, "x", "BYTES", 2);
  input->mutable_contents()->add_bytes_contents("ab");
  input->mutable_contents()->add_bytes_contents("");
  const auto tensors = ViewInputs("'m' version 1", request_);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->packed[0], std::string("\2\0\0\0ab\0\0\0\0", 10));
  EXPECT_EQ(tensors->inputs[0].bytes.size(), 10u);
}

TEST_F(RequestTensorsTest, InputsInSharedMemoryHaveNoRawContents) {
  RegionFiles files;
  files.Put("/a", "01234567");
  RegionBook book({}, files.folder());
  const RegionCaller local{.tenant = "", .user = 1000};
  ASSERT_TRUE(
      book.Register(local, {.name = "r", .key = "/a", .offset = 0, .bytes = 8})
          .ok());
  AddInput(&request_, "x", "FP32", 1);
  auto& parameters = *AddInput(&request_, "y", "FP32", 1)->mutable_parameters();
  parameters["shared_memory_region"].set_string_param("r");
  parameters["shared_memory_byte_size"].set_int64_param(4);
  parameters["shared_memory_offset"].set_int64_param(4);
  AddInput(&request_, "z", "FP32", 1);
  request_.add_raw_input_contents("abcd");
  const auto places = FindPlaces(request_, local, book);
  ASSERT_TRUE(places.ok()) << places.status();
  EXPECT_THAT(
      std::string(
          ViewInputs("'m' version 1", request_, *places).status().message()),
      HasSubstr("input tensor 'z' for model 'm' version 1 in request: it has 1 "
                "raw_input_contents for 2 inputs"));
  request_.add_raw_input_contents("efgh");
  const auto tensors = ViewInputs("'m' version 1", request_, *places);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  std::vector<std::string> texts;
  for (const TensorView& input : tensors->inputs) {
    const std::vector<char> bytes = Values<char>(input);
    texts.emplace_back(bytes.begin(), bytes.end());
  }
  EXPECT_THAT(texts, ElementsAre("abcd", "4567", "efgh"));
  request_.add_raw_input_contents("ijkl");
  EXPECT_THAT(
      std::string(
          ViewInputs("'m' version 1", request_, *places).status().message()),
      HasSubstr("one for each input outside shared memory"));
}

class SelectOutputsTest : public ::testing::Test {
 protected:
  SelectOutputsTest() {
    for (const char* name : {"a", "b"}) {
      TensorFormat format;
      format.name = name;
      formats_.push_back(format);
    }
  }
  absl::StatusOr<std::vector<AskedOutput>> Select(
      std::vector<std::string> names) {
    inference::ModelInferRequest request;
    for (const auto& name : names) request.add_outputs()->set_name(name);
    return SelectOutputs("'m' version 1", formats_, request);
  }
  std::vector<TensorFormat> formats_;
};

TEST_F(SelectOutputsTest, NoneMeansAllAndNamesMeanThose) {
  EXPECT_THAT(*Select({}), ElementsAre(AskedOutput{0}, AskedOutput{1}));
  EXPECT_THAT(*Select({"b"}), ElementsAre(AskedOutput{1}));
  EXPECT_THAT(*Select({"b", "a"}), ElementsAre(AskedOutput{1}, AskedOutput{0}));
}

TEST_F(SelectOutputsTest, UnknownAndRepeatedOutputsAreRefused) {
  EXPECT_THAT(std::string(Select({"c"}).status().message()),
              AllOf(HasSubstr("unexpected inference output 'c'"),
                    HasSubstr("'a', 'b'")));
  EXPECT_THAT(std::string(Select({"a", "a"}).status().message()),
              HasSubstr("already exists in request"));
}

class ClassificationTest : public SelectOutputsTest {
 protected:
  ClassificationTest() { formats_[1].data_type = v1::FLOAT32; }
  inference::InferParameter& Classes(const std::string& output) {
    request_.clear_outputs();
    auto* const asked = request_.add_outputs();
    asked->set_name(output);
    return (*asked->mutable_parameters())["classification"];
  }
  absl::StatusOr<std::vector<AskedOutput>> Selected() {
    return SelectOutputs("'m' version 1", formats_, request_);
  }
  std::string Refusal() {
    const absl::Status status = Selected().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  inference::ModelInferRequest request_;
};

TEST_F(ClassificationTest, TheNumberOfClassesIsAnIntegerFromOne) {
  Classes("b").set_int64_param(3);
  EXPECT_THAT(*Selected(), ElementsAre(AskedOutput{1, 3}));
  Classes("b").set_uint64_param(uint64_t{1} << 40);
  EXPECT_THAT(*Selected(), ElementsAre(AskedOutput{1, 4294967295}));
  Classes("b").set_int64_param(0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("output 'b' is 0"),
                               HasSubstr("1 class or more")));
  Classes("b").set_int64_param(-2);
  EXPECT_THAT(Refusal(), HasSubstr("output 'b' is -2"));
  Classes("b").set_uint64_param(0);
  EXPECT_THAT(Refusal(), HasSubstr("output 'b' is 0"));
  Classes("b").set_string_param("3");
  EXPECT_THAT(Refusal(), HasSubstr("'classification' parameter, expected"));
}

TEST_F(ClassificationTest, AnOutputWithoutNumbersHasNoClasses) {
  formats_[0].data_type = v1::BOOL;
  Classes("a").set_int64_param(1);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("output 'a' of datatype BOOL"),
                               HasSubstr("no numbers")));
}

class ReadParametersTest : public ::testing::Test {
 protected:
  inference::InferParameter& Set(const std::string& key) {
    return (*request_.mutable_parameters())[key];
  }
  inference::ModelInferRequest request_;
};

TEST_F(ReadParametersTest, TimeoutIsMicrosecondsAndZeroMeansNone) {
  EXPECT_EQ(ReadParameters(request_)->timeout, absl::InfiniteDuration());
  Set("timeout").set_int64_param(1500);
  EXPECT_EQ(ReadParameters(request_)->timeout, absl::Microseconds(1500));
  Set("timeout").set_int64_param(0);
  EXPECT_EQ(ReadParameters(request_)->timeout, absl::InfiniteDuration());
  Set("timeout").set_int64_param(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadParameters(request_).status()));
}

TEST_F(ReadParametersTest, PriorityMayBeEitherInteger) {
  Set("priority").set_uint64_param(3);
  EXPECT_TRUE(ReadParameters(request_).ok());
  Set("priority").set_int64_param(3);
  EXPECT_TRUE(ReadParameters(request_).ok());
  Set("priority").set_int64_param(-3);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadParameters(request_).status()));
  Set("priority").set_string_param("3");
  EXPECT_THAT(std::string(ReadParameters(request_).status().message()),
              HasSubstr("invalid value type for 'priority' parameter"));
}

TEST_F(ReadParametersTest, ASequenceIdIsANumberOrAText) {
  EXPECT_TRUE(ReadParameters(request_)->sequence.IsEmpty());
  Set("sequence_id").set_int64_param(7);
  EXPECT_EQ(ReadParameters(request_)->sequence.id.number, 7u);
  Set("sequence_id").set_uint64_param(UINT64_MAX);
  EXPECT_EQ(ReadParameters(request_)->sequence.id.number, UINT64_MAX);
  Set("sequence_id").set_string_param(std::string(128, '7'));
  const auto text = ReadParameters(request_);
  EXPECT_EQ(text->sequence.id.number, 0u);
  EXPECT_EQ(text->sequence.id.text, std::string(128, '7'));
  EXPECT_FALSE(text->sequence.start);
  EXPECT_FALSE(text->sequence.end);
  Set("sequence_start").set_bool_param(true);
  EXPECT_TRUE(ReadParameters(request_)->sequence.start);
  Set("sequence_end").set_bool_param(true);
  EXPECT_TRUE(ReadParameters(request_)->sequence.end);
}

TEST_F(ReadParametersTest, ABadSequenceIdIsRefused) {
  const auto refusal = [this] {
    const absl::Status refused = ReadParameters(request_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    return std::string(refused.message());
  };
  Set("sequence_id").set_bool_param(true);
  EXPECT_THAT(refusal(), HasSubstr("'sequence_id' parameter: true; expected"));
  Set("sequence_id").set_int64_param(-1);
  EXPECT_THAT(
      refusal(),
      AllOf(HasSubstr("'sequence_id' parameter: -1; expected a whole number "
                      "from 1 to 18446744073709551615"),
            HasSubstr("as int64_param or uint64_param"),
            HasSubstr("a string of 1 to 128 bytes"),
            HasSubstr("0 and \"\" say that the request belongs to no")));
  Set("sequence_id").set_double_param(7.0);
  EXPECT_THAT(refusal(), HasSubstr("the floating-point number 7; expected"));
  Set("sequence_id").set_double_param(18446744073709551616.0);  // 2^64
  EXPECT_THAT(refusal(), HasSubstr("number 18446744073709551616; expected"));
  Set("sequence_id").Clear();
  EXPECT_THAT(refusal(), HasSubstr("no value; expected"));
  Set("sequence_id").set_string_param(std::string(129, '7'));
  EXPECT_THAT(std::string(ReadParameters(request_).status().message()),
              AllOf(HasSubstr("129 bytes"), HasSubstr("128")));
}

TEST_F(ReadParametersTest, ModelsWithoutSequencesRefuseThemInWords) {
  EXPECT_TRUE(RefuseSequence("'m' version 1", {}).ok());
  const absl::Status refused = RefuseSequence(
      "'m' version 1", {.id = {.number = 7, .text = ""}, .start = true});
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("parameter 'sequence_id'"),
                    HasSubstr("model 'm' version 1 serves no sequences")));
  EXPECT_THAT(std::string(RefuseSequence("m", {.end = true}).message()),
              HasSubstr("parameter 'sequence_end'"));
}

// Some clients send these parameters with every request.
TEST_F(ReadParametersTest, ParametersThatSayNoSequencePass) {
  Set("sequence_id").set_int64_param(0);
  Set("sequence_start").set_bool_param(false);
  Set("sequence_end").set_bool_param(false);
  EXPECT_TRUE(ReadParameters(request_).ok());
  Set("sequence_id").set_string_param("");
  EXPECT_TRUE(ReadParameters(request_).ok());
  Set("sequence_start").set_int64_param(0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadParameters(request_).status()));
}

TEST_F(ReadParametersTest, OwnKeysPassAndReservedOnesDoNot) {
  Set("my_key").set_double_param(1);
  EXPECT_TRUE(ReadParameters(request_).ok());
  Set("triton_enable_empty_final_response").set_bool_param(true);
  EXPECT_TRUE(ReadParameters(request_).ok());
  Set("triton_other").set_bool_param(true);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadParameters(request_).status()));
}

}  // namespace
}  // namespace gpupool::server
