#include "server/http/rest/rest_generate.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/json_elements.h"
#include "server/http/rest/rest_body.h"
#include "server/http/rest/rest_infer_request.h"
#include "server/http/rest/rest_infer_response.h"

namespace gpupool::server {
namespace {

using GenerateValue = nlohmann::json;
using ModelTensor = inference::ModelMetadataResponse::TensorMetadata;
using SentTensor = inference::ModelInferRequest::InferInputTensor;

absl::Status BadKey(absl::string_view key, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' ", text));
}

// The elements of a value in row-major order, and the sizes of its lists.
struct FlatValue {
  JsonElements elements;
  std::vector<int64_t> sizes;  // empty: a scalar
};

void AddScalar(const GenerateValue& value, JsonElements* elements) {
  if (value.is_boolean()) {
    elements->AddBool(value.get<bool>());
  } else if (value.is_number_unsigned()) {
    elements->AddUnsigned(value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    elements->AddNegative(value.get<int64_t>());
  } else if (value.is_number_float()) {
    elements->AddFloat(value.get<double>());
  } else if (value.is_string()) {
    elements->AddText(value.get<std::string>());
  } else {
    elements->AddOther(value.is_null() ? "null" : "an object");
  }
}

// Adds the elements of a value that is `depth` lists deep. Returns false when
// lists of one depth have different sizes, or a list stands beside an element.
bool Flatten(const GenerateValue& value, size_t depth, FlatValue* flat) {
  if (!value.is_array()) {
    AddScalar(value, &flat->elements);
    return depth == flat->sizes.size();
  }
  const auto size = static_cast<int64_t>(value.size());
  if (depth == flat->sizes.size()) {
    if (flat->elements.size() > 0) return false;
    flat->sizes.push_back(size);
  }
  if (flat->sizes[depth] != size) return false;
  for (const GenerateValue& inner : value) {
    if (!Flatten(inner, depth + 1, flat)) return false;
  }
  return true;
}

// Fills in the sizes that the model leaves open for so many elements. Returns
// false when no sizes fit.
bool FitShape(uint64_t elements, std::vector<int64_t>* shape) {
  int64_t* last = nullptr;
  uint64_t known = 1;
  for (int64_t& size : *shape) {
    if (size >= 0) {
      if (__builtin_mul_overflow(known, static_cast<uint64_t>(size), &known)) {
        return false;
      }
      continue;
    }
    if (last != nullptr) *last = 1;
    last = &size;
  }
  if (last == nullptr) return known == elements;
  if (known == 0 || elements % known != 0) return false;
  *last = static_cast<int64_t>(elements / known);
  return true;
}

// Returns the shape of an input with these elements.
absl::StatusOr<std::vector<int64_t>> ShapeOf(const ModelTensor& input,
                                             const FlatValue& value) {
  std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  if (value.sizes.size() > 1) {
    std::vector<int64_t> sizes = value.sizes;
    if (sizes.size() + 1 == shape.size() && shape[0] == -1) {
      sizes.insert(sizes.begin(), 1);
    }
    return sizes;
  }
  if (FitShape(value.elements.size(), &shape)) return shape;
  return BadKey(input.name(),
                absl::StrCat("has ", value.elements.size(),
                             " elements, which fit no shape of the input, [",
                             absl::StrJoin(input.shape(), ","),
                             "]; give lists in lists, or use /infer"));
}

// Builds a request key by key.
class GenerateReader {
 public:
  explicit GenerateReader(const inference::ModelMetadataResponse& model)
      : model_(model) {}

  absl::Status Read(const GenerateValue& body) {
    for (const auto& [key, value] : body.items()) {
      const absl::Status read = ReadKey(key, value);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  RestInferRequest request;

 private:
  absl::Status ReadKey(const std::string& key, const GenerateValue& value) {
    for (const ModelTensor& input : model_.inputs()) {
      if (input.name() == key) return ReadInput(input, value);
    }
    if (key == "id") {
      if (!value.is_string()) return BadKey(key, "takes a string");
      request.message.set_id(value.get<std::string>());
      return absl::OkStatus();
    }
    if (key != "parameters") return ReadParameter(key, value);
    if (!value.is_object()) return BadKey(key, "takes an object");
    for (const auto& [name, parameter] : value.items()) {
      const absl::Status read = ReadParameter(name, parameter);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  absl::Status ReadInput(const ModelTensor& input, const GenerateValue& value) {
    FlatValue flat;
    flat.elements.Open();
    const bool regular = Flatten(value, 0, &flat);
    flat.elements.Close();
    if (!regular) {
      return BadKey(input.name(),
                    "takes one flat list, or lists in the shape of the tensor");
    }
    const auto shape = ShapeOf(input, flat);
    // Elements of another kind were not counted, and are the reason to name.
    if (!shape.ok() && !flat.elements.has_fault()) return shape.status();
    auto packed =
        flat.elements.Pack({.name = input.name(),
                            .datatype = input.datatype(),
                            .shape = shape.ok() ? *shape : flat.sizes});
    if (!packed.ok()) return packed.status();
    SentTensor* const tensor = request.message.add_inputs();
    tensor->set_name(input.name());
    tensor->set_datatype(input.datatype());
    for (const int64_t size : *shape) tensor->add_shape(size);
    request.contents.emplace_back().packed = *std::move(packed);
    return absl::OkStatus();
  }

  absl::Status ReadParameter(const std::string& key,
                             const GenerateValue& value) {
    if (SetJsonParameter(value,
                         &(*request.message.mutable_parameters())[key])) {
      return absl::OkStatus();
    }
    return BadKey(key,
                  absl::StrCat("is no input of model '", model_.name(),
                               "', and as a parameter it takes a boolean, a "
                               "number or a string"));
  }

  const inference::ModelMetadataResponse& model_;
};

}  // namespace

absl::StatusOr<std::string> WireOfGenerate(
    const inference::ModelMetadataResponse& model, absl::string_view version,
    absl::string_view body) {
  if (body.size() > kMostJsonBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the JSON of the request has ", body.size(), " bytes, the most is ",
        kMostJsonBytes, "; send tensors as binary data to /infer"));
  }
  const auto read = ReadRestBody(body);
  if (!read.ok()) return read.status();
  GenerateReader reader(model);
  const absl::Status status = reader.Read(read->json);
  if (!status.ok()) return status;
  reader.request.message.set_model_name(model.name());
  reader.request.message.set_model_version(std::string(version));
  return WireOf(reader.request);
}

absl::StatusOr<std::string> GenerateJson(
    const inference::ModelInferResponse& response) {
  std::string json =
      absl::StrCat("{\"model_name\":", JsonText(response.model_name()),
                   ",\"model_version\":", JsonText(response.model_version()));
  if (!response.id().empty()) {
    absl::StrAppend(&json, ",\"id\":", JsonText(response.id()));
  }
  if (response.outputs_size() != response.raw_output_contents_size()) {
    return absl::InternalError("the answer has outputs without contents");
  }
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    auto elements = OutputElements(output, response.raw_output_contents(i));
    if (!elements.ok()) return elements.status();
    int64_t count = 1;
    for (const int64_t size : output.shape()) count *= size;
    absl::string_view text = *elements;
    if (count == 1) text = text.substr(1, text.size() - 2);
    absl::StrAppend(&json, ",", JsonText(output.name()), ":", text);
  }
  json += "}";
  return json;
}

bool IsEmptyFinal(const inference::ModelInferResponse& response) {
  if (!response.outputs().empty()) return false;
  const auto parameter = response.parameters().find("triton_final_response");
  return parameter != response.parameters().end() &&
         parameter->second.bool_param();
}

}  // namespace gpupool::server
