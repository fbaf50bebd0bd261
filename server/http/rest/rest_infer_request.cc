#include "server/http/rest/rest_infer_request.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/datatype_bytes.h"
#include "server/http/rest/rest_body.h"

namespace gpupool::server {
namespace {

using RequestJson = nlohmann::json;
using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;
using inference::ModelInferRequest;

constexpr char kBinarySize[] = "binary_data_size";
constexpr char kBinaryData[] = "binary_data";
constexpr char kBinaryOutput[] = "binary_data_output";
constexpr char kRegion[] = "shared_memory_region";

absl::Status BadRequest(absl::string_view where, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(where, " ", text));
}

// Returns the member; null when the object does not have it, or has null there.
const RequestJson* Member(const RequestJson& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// Returns the parameters of `object`, which `where` names; null when it has
// none.
absl::StatusOr<const RequestJson*> ParametersOf(const RequestJson& object,
                                                absl::string_view where) {
  const RequestJson* parameters = Member(object, "parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return BadRequest(where, "has 'parameters' that are no object");
  }
  return parameters;
}

// Copies the parameters but `own`, which is of this form of requests only.
absl::Status CopyParameters(const RequestJson* parameters, const char* own,
                            ParameterMap* to) {
  if (parameters == nullptr) return absl::OkStatus();
  for (const auto& [key, value] : parameters->items()) {
    if (key == own) continue;
    if (!SetJsonParameter(value, &(*to)[key])) {
      return BadRequest(absl::StrCat("parameter '", key, "'"),
                        "takes a boolean, a number or a string");
    }
  }
  return absl::OkStatus();
}

// Returns a parameter that is a boolean; nothing when it is not there.
absl::StatusOr<std::optional<bool>> FlagOf(const RequestJson* parameters,
                                           const char* key) {
  const RequestJson* value =
      parameters == nullptr ? nullptr : Member(*parameters, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) {
    return BadRequest(absl::StrCat("parameter '", key, "'"),
                      "takes true or false");
  }
  return std::optional<bool>(value->get<bool>());
}

absl::StatusOr<std::string> StringOf(const RequestJson& object, const char* key,
                                     absl::string_view where) {
  const RequestJson* value = Member(object, key);
  if (value == nullptr || !value->is_string()) {
    return BadRequest(where,
                      absl::StrCat("has no '", key, "' that is a string"));
  }
  return value->get<std::string>();
}

absl::Status ReadShape(const RequestJson& input, absl::string_view where,
                       ModelInferRequest::InferInputTensor* to) {
  const RequestJson* shape = Member(input, "shape");
  if (shape == nullptr || !shape->is_array()) {
    return BadRequest(where, "has no 'shape' that is a list");
  }
  for (const RequestJson& size : *shape) {
    const bool fits =
        size.is_number_integer() &&
        !(size.is_number_unsigned() &&
          size.get<uint64_t>() >
              static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits) {
      return BadRequest(where,
                        "has a 'shape' with a size that is no integer "
                        "of 64 bits");
    }
    to->add_shape(size.get<int64_t>());
  }
  return absl::OkStatus();
}

// Reads a request piece by piece. Knows how much of the binary data is left.
class InferReader {
 public:
  // `binary` is nothing when the body is JSON only.
  InferReader(std::optional<absl::string_view> binary,
              RestInferRequest* request)
      : has_binary_(binary.has_value()),
        left_(binary.value_or(absl::string_view())),
        request_(request) {}

  absl::Status Read(const RestBody& body) {
    if (const auto status = ReadHead(body.json); !status.ok()) return status;
    const RequestJson* inputs = Member(body.json, "inputs");
    if (inputs == nullptr || !inputs->is_array()) {
      return BadRequest("the request", "has no 'inputs' that are a list");
    }
    // Contents refer to bytes of their own, so the vector must not grow.
    request_->contents.reserve(inputs->size());
    for (size_t i = 0; i < inputs->size(); ++i) {
      const auto status =
          ReadInput((*inputs)[i], absl::StrCat("inputs[", i, "]"), body.data);
      if (!status.ok()) return status;
    }
    if (!left_.empty()) {
      return BadRequest(
          "the body",
          absl::StrCat("has ", left_.size(),
                       " bytes of binary data more than its inputs take by "
                       "binary_data_size"));
    }
    return ReadOutputs(body.json);
  }

 private:
  // Reads the fields that are of no tensor.
  absl::Status ReadHead(const RequestJson& json) {
    if (Member(json, "id") != nullptr) {
      const auto id = StringOf(json, "id", "the request");
      if (!id.ok()) return id.status();
      request_->message.set_id(*id);
    }
    const auto parameters = ParametersOf(json, "the request");
    if (!parameters.ok()) return parameters.status();
    const auto binary = FlagOf(*parameters, kBinaryOutput);
    if (!binary.ok()) return binary.status();
    request_->forms.SetBinary(binary->value_or(false));
    return CopyParameters(*parameters, kBinaryOutput,
                          request_->message.mutable_parameters());
  }

  absl::Status ReadInput(const RequestJson& input, const std::string& where,
                         const std::vector<JsonElements>& data) {
    if (!input.is_object()) return BadRequest(where, "is no object");
    const auto name = StringOf(input, "name", where);
    if (!name.ok()) return name.status();
    const std::string named = absl::StrCat("input '", *name, "'");
    const auto datatype = StringOf(input, "datatype", named);
    if (!datatype.ok()) return datatype.status();
    auto* const tensor = request_->message.add_inputs();
    tensor->set_name(*name);
    tensor->set_datatype(*datatype);
    if (const auto status = ReadShape(input, named, tensor); !status.ok()) {
      return status;
    }
    const auto parameters = ParametersOf(input, named);
    if (!parameters.ok()) return parameters.status();
    const auto copied =
        CopyParameters(*parameters, kBinarySize, tensor->mutable_parameters());
    if (!copied.ok()) return copied;
    const RequestJson* const elements = Member(input, "data");
    const RequestJson* const size =
        *parameters == nullptr ? nullptr : Member(**parameters, kBinarySize);
    if (tensor->parameters().contains(kRegion)) {
      if (elements == nullptr && size == nullptr) return absl::OkStatus();
      return BadRequest(named, absl::StrCat("has elements and the parameter ",
                                            kRegion, "; give one of them"));
    }
    if (size != nullptr) {
      if (elements != nullptr) {
        return BadRequest(named, "has both 'data' and binary_data_size");
      }
      return TakeBinary(named, *size);
    }
    if (elements != nullptr) {
      return PackData(*tensor, data[elements->get<size_t>()]);
    }
    return BadRequest(named,
                      absl::StrCat("has no elements; give them in 'data', or "
                                   "give binary_data_size and the header ",
                                   kJsonLengthHeader));
  }

  absl::Status PackData(const ModelInferRequest::InferInputTensor& tensor,
                        const JsonElements& elements) {
    auto packed = elements.Pack(
        {.name = tensor.name(),
         .datatype = tensor.datatype(),
         .shape = absl::MakeConstSpan(
             tensor.shape().data(), static_cast<size_t>(tensor.shape_size()))});
    if (!packed.ok()) return packed.status();
    request_->contents.emplace_back().packed = *std::move(packed);
    return absl::OkStatus();
  }

  absl::Status TakeBinary(const std::string& named, const RequestJson& size) {
    if (!has_binary_) {
      return BadRequest(named, absl::StrCat("has binary_data_size, but the "
                                            "request has no header ",
                                            kJsonLengthHeader));
    }
    if (!size.is_number_unsigned()) {
      return BadRequest(named,
                        "has a binary_data_size that is no integer from "
                        "0");
    }
    const uint64_t bytes = size.get<uint64_t>();
    if (bytes > left_.size()) {
      return BadRequest(named,
                        absl::StrCat("has a binary_data_size of ", bytes,
                                     ", but the body has ", left_.size(),
                                     " bytes of binary data left for it"));
    }
    request_->contents.emplace_back().sent = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return absl::OkStatus();
  }

  absl::Status ReadOutputs(const RequestJson& json) {
    const RequestJson* outputs = Member(json, "outputs");
    if (outputs == nullptr) return absl::OkStatus();
    if (!outputs->is_array()) {
      return BadRequest("the request", "has 'outputs' that are no list");
    }
    for (size_t i = 0; i < outputs->size(); ++i) {
      const auto status =
          ReadOutput((*outputs)[i], absl::StrCat("outputs[", i, "]"));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadOutput(const RequestJson& output, const std::string& where) {
    if (!output.is_object()) return BadRequest(where, "is no object");
    const auto name = StringOf(output, "name", where);
    if (!name.ok()) return name.status();
    const auto parameters =
        ParametersOf(output, absl::StrCat("output '", *name, "'"));
    if (!parameters.ok()) return parameters.status();
    const auto binary = FlagOf(*parameters, kBinaryData);
    if (!binary.ok()) return binary.status();
    if (binary->has_value()) request_->forms.SetBinary(*name, **binary);
    auto* const asked = request_->message.add_outputs();
    asked->set_name(*name);
    return CopyParameters(*parameters, kBinaryData,
                          asked->mutable_parameters());
  }

  const bool has_binary_;
  absl::string_view left_;  // binary data that no input has taken
  RestInferRequest* const request_;
};

// Fills in the sizes that the model leaves open, so that the tensor has the
// bytes. Returns false when no sizes do.
bool CloseShape(uint64_t element_bytes, uint64_t bytes,
                ModelInferRequest::InferInputTensor* tensor) {
  auto* const shape = tensor->mutable_shape();
  int last = -1;
  uint64_t known_bytes = element_bytes;
  for (int i = 0; i < shape->size(); ++i) {
    if (shape->Get(i) == -1) {
      if (last >= 0) shape->Set(last, 1);
      last = i;
    } else if (shape->Get(i) < 0 ||
               __builtin_mul_overflow(known_bytes,
                                      static_cast<uint64_t>(shape->Get(i)),
                                      &known_bytes)) {
      return false;
    }
  }
  if (last < 0) return known_bytes == bytes;
  if (known_bytes == 0 || bytes % known_bytes != 0) return false;
  shape->Set(last, static_cast<int64_t>(bytes / known_bytes));
  return true;
}

}  // namespace

bool SetJsonParameter(const nlohmann::json& value,
                      inference::InferParameter* parameter) {
  if (value.is_boolean()) {
    parameter->set_bool_param(value.get<bool>());
  } else if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number <= std::numeric_limits<int64_t>::max()) {
      parameter->set_int64_param(static_cast<int64_t>(number));
    } else {
      parameter->set_uint64_param(number);
    }
  } else if (value.is_number_integer()) {
    parameter->set_int64_param(value.get<int64_t>());
  } else if (value.is_number_float()) {
    parameter->set_double_param(value.get<double>());
  } else if (value.is_string()) {
    parameter->set_string_param(value.get<std::string>());
  } else {
    return false;
  }
  return true;
}

absl::StatusOr<uint64_t> ReadJsonLength(absl::string_view header) {
  uint64_t bytes = 0;
  // SimpleAtoi takes spaces and signs, too.
  if (header.empty() ||
      !std::all_of(header.begin(), header.end(),
                   [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(header, &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header ", kJsonLengthHeader, " is '", header.substr(0, 40),
        "'; it takes the bytes of the JSON at the start of the "
        "body"));
  }
  return bytes;
}

absl::StatusOr<RestInferRequest> ReadInferRequest(
    absl::string_view body, std::optional<uint64_t> json_bytes) {
  if (json_bytes.has_value() && *json_bytes > body.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header ", kJsonLengthHeader, " is ", *json_bytes,
                     ", but the body has ", body.size(), " bytes"));
  }
  const absl::string_view text =
      body.substr(0, json_bytes.value_or(body.size()));
  if (text.size() > kMostJsonBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the JSON of the request has ", text.size(), " bytes, the most is ",
        kMostJsonBytes, "; send tensors as binary data, or fewer rows"));
  }
  const auto read = ReadRestBody(text);
  if (!read.ok()) return read.status();
  std::optional<absl::string_view> binary;
  if (json_bytes.has_value()) binary = body.substr(*json_bytes);
  RestInferRequest request;
  const absl::Status status = InferReader(binary, &request).Read(*read);
  if (!status.ok()) return status;
  return request;
}

absl::StatusOr<RestInferRequest> ReadRawRequest(
    const inference::ModelMetadataResponse& model, absl::string_view body) {
  if (model.inputs_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header ", kJsonLengthHeader,
        " is 0, which makes the body the only input; model '", model.name(),
        "' takes ", model.inputs_size(), " inputs, so send JSON first"));
  }
  const auto& format = model.inputs(0);
  const uint64_t element_bytes = DatatypeBytes(format.datatype());
  const auto open =
      std::count(format.shape().begin(), format.shape().end(), -1);
  RestInferRequest request;
  auto* const tensor = request.message.add_inputs();
  tensor->set_name(format.name());
  tensor->set_datatype(format.datatype());
  *tensor->mutable_shape() = format.shape();
  if (open > 2 || element_bytes == 0 ||
      !CloseShape(element_bytes, body.size(), tensor)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a body of ", body.size(), " bytes is not input '", format.name(),
        "' of model '", model.name(), "', of datatype ", format.datatype(),
        " and ", open, " open sizes; send JSON with its shape first"));
  }
  request.contents.emplace_back().sent = body;
  request.forms.SetBinary(true);
  return request;
}

std::string WireOf(const RestInferRequest& request) {
  using google::protobuf::io::CodedOutputStream;
  // Field number and wire type 2, bytes with their length before them.
  constexpr uint32_t kTag =
      (ModelInferRequest::kRawInputContentsFieldNumber << 3) | 2;
  static_assert(kTag < 128, "the tag is one byte");
  constexpr size_t kMostLengthBytes = 10;
  std::string wire = request.message.SerializeAsString();
  size_t bytes = wire.size();
  for (const RestInferRequest::Contents& contents : request.contents) {
    bytes += 1 + kMostLengthBytes + contents.bytes().size();
  }
  wire.reserve(bytes);
  for (const RestInferRequest::Contents& contents : request.contents) {
    uint8_t length[kMostLengthBytes];
    const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(
        contents.bytes().size(), length);
    wire.push_back(static_cast<char>(kTag));
    wire.append(reinterpret_cast<const char*>(length),
                static_cast<size_t>(end - length));
    wire.append(contents.bytes().data(), contents.bytes().size());
  }
  return wire;
}

}  // namespace gpupool::server
