#include "server/http/rest/rest_infer_response.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/datatype_bytes.h"

namespace gpupool::server {
namespace {

using inference::ModelInferResponse;
using OutputTensor = ModelInferResponse::InferOutputTensor;

// Bytes of the length before each element of BYTES.
constexpr size_t kTextHeadBytes = 4;

size_t TextLengthAt(const std::string& raw, size_t at) {
  uint32_t length = 0;
  std::memcpy(&length, raw.data() + at, kTextHeadBytes);
  return length;
}

// Returns the number of elements of BYTES; nothing when a length ends behind
// the contents.
std::optional<uint64_t> CountTexts(const std::string& raw) {
  uint64_t count = 0;
  size_t at = 0;
  for (; at + kTextHeadBytes <= raw.size(); ++count) {
    const size_t length = TextLengthAt(raw, at);
    at += kTextHeadBytes;
    if (length > raw.size() - at) return std::nullopt;
    at += length;
  }
  return at == raw.size() ? std::optional<uint64_t>(count) : std::nullopt;
}

template <typename Number>
void AppendNumber(Number value, std::string* out) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) {
      *out += std::isnan(value) ? "\"NaN\""
              : value > 0       ? "\"Infinity\""
                                : "\"-Infinity\"";
      return;
    }
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  out->append(text, static_cast<size_t>(end.ptr - text));
}

// Appends the elements, separated by commas.
template <typename Number>
void AppendNumbers(const std::string& raw, std::string* out) {
  for (size_t at = 0; at + sizeof(Number) <= raw.size(); at += sizeof(Number)) {
    Number value;
    std::memcpy(&value, raw.data() + at, sizeof(value));
    if (at > 0) out->push_back(',');
    AppendNumber(value, out);
  }
}

void AppendBools(const std::string& raw, std::string* out) {
  for (size_t i = 0; i < raw.size(); ++i) {
    if (i > 0) out->push_back(',');
    *out += raw[i] != 0 ? "true" : "false";
  }
}

// Appends the elements of BYTES, whose lengths CheckContents has checked.
void AppendTexts(const std::string& raw, std::string* out) {
  size_t at = 0;
  while (at + kTextHeadBytes <= raw.size()) {
    if (at > 0) out->push_back(',');
    const size_t length = TextLengthAt(raw, at);
    *out += JsonText(raw.substr(at + kTextHeadBytes, length));
    at += kTextHeadBytes + length;
  }
}

// Appends the elements as a list. InvalidArgument for a datatype that JSON does
// not have.
absl::Status AppendData(const OutputTensor& output, const std::string& raw,
                        std::string* out) {
  using Append = void (*)(const std::string&, std::string*);
  static constexpr std::pair<absl::string_view, Append> kAppenders[] = {
      {"BOOL", &AppendBools},
      {"UINT8", &AppendNumbers<uint8_t>},
      {"UINT16", &AppendNumbers<uint16_t>},
      {"UINT32", &AppendNumbers<uint32_t>},
      {"UINT64", &AppendNumbers<uint64_t>},
      {"INT8", &AppendNumbers<int8_t>},
      {"INT16", &AppendNumbers<int16_t>},
      {"INT32", &AppendNumbers<int32_t>},
      {"INT64", &AppendNumbers<int64_t>},
      {"FP32", &AppendNumbers<float>},
      {"FP64", &AppendNumbers<double>},
      {"BYTES", &AppendTexts}};
  for (const auto& [name, append] : kAppenders) {
    if (name != output.datatype()) continue;
    *out += "[";
    append(raw, out);
    *out += "]";
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "output '", output.name(), "' has datatype ", output.datatype(),
      ", which JSON does not have; ask for binary data, by its parameter "
      "binary_data or by binary_data_output of the request"));
}

// Returns whether the output was written to shared memory.
bool IsElsewhere(const OutputTensor& output) {
  return output.parameters().contains("shared_memory_region");
}

// Checks that the contents are as many as the shape says.
absl::Status CheckContents(const OutputTensor& output, const std::string& raw) {
  const bool texts = output.datatype() == "BYTES";
  uint64_t expected = texts ? 1 : DatatypeBytes(output.datatype());
  bool fits = true;
  for (int64_t size : output.shape()) {
    fits = fits && size >= 0 &&
           !__builtin_mul_overflow(expected, static_cast<uint64_t>(size),
                                   &expected);
  }
  if (fits && (texts ? CountTexts(raw) == expected : raw.size() == expected)) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "output '", output.name(), "' of datatype ", output.datatype(),
      " and shape [", absl::StrJoin(output.shape(), ","), "] has ", raw.size(),
      " bytes", texts ? ", which are other elements" : ""));
}

nlohmann::json ValueOfParameter(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kBoolParam:
      return parameter.bool_param();
    case inference::InferParameter::kInt64Param:
      return parameter.int64_param();
    case inference::InferParameter::kStringParam:
      return parameter.string_param();
    case inference::InferParameter::kDoubleParam:
      return parameter.double_param();
    case inference::InferParameter::kUint64Param:
      return parameter.uint64_param();
    case inference::InferParameter::PARAMETER_CHOICE_NOT_SET:
      return nullptr;
  }
  return nullptr;
}

// Appends `,"parameters":{...}` unless there are none.
template <typename Parameters>
void AppendParameters(const Parameters& parameters,
                      std::optional<size_t> binary_bytes, std::string* out) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [key, value] : parameters) {
    object[key] = ValueOfParameter(value);
  }
  if (binary_bytes.has_value()) object["binary_data_size"] = *binary_bytes;
  if (object.empty()) return;
  absl::StrAppend(
      out, ",\"parameters\":",
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

absl::Status AppendOutput(const OutputTensor& output, const std::string& raw,
                          bool binary, std::string* out) {
  absl::StrAppend(out, "{\"name\":", JsonText(output.name()),
                  ",\"datatype\":", JsonText(output.datatype()), ",\"shape\":[",
                  absl::StrJoin(output.shape(), ","), "]");
  AppendParameters(output.parameters(),
                   binary ? std::optional<size_t>(raw.size()) : std::nullopt,
                   out);
  if (!binary && !IsElsewhere(output)) {
    *out += ",\"data\":";
    const absl::Status appended = AppendData(output, raw, out);
    if (!appended.ok()) return appended;
  }
  *out += "}";
  return absl::OkStatus();
}

}  // namespace

std::string JsonText(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::string> OutputElements(const OutputTensor& output,
                                           const std::string& raw) {
  const absl::Status checked = CheckContents(output, raw);
  if (!checked.ok()) return checked;
  std::string elements;
  const absl::Status appended = AppendData(output, raw, &elements);
  if (!appended.ok()) return appended;
  return elements;
}

absl::StatusOr<RestInferAnswer> WriteInferResponse(
    const ModelInferResponse& response, const OutputForms& forms) {
  if (response.outputs_size() != response.raw_output_contents_size()) {
    return absl::InternalError(absl::StrCat(
        "the answer has ", response.outputs_size(), " outputs and contents of ",
        response.raw_output_contents_size()));
  }
  RestInferAnswer answer;
  std::string& body = answer.body;
  absl::StrAppend(&body, "{\"model_name\":", JsonText(response.model_name()),
                  ",\"model_version\":", JsonText(response.model_version()));
  if (!response.id().empty()) {
    absl::StrAppend(&body, ",\"id\":", JsonText(response.id()));
  }
  AppendParameters(response.parameters(), std::nullopt, &body);
  body += ",\"outputs\":[";
  size_t binary_bytes = 0;
  bool any_binary = false;
  for (int i = 0; i < response.outputs_size(); ++i) {
    const OutputTensor& output = response.outputs(i);
    const std::string& raw = response.raw_output_contents(i);
    if (!IsElsewhere(output)) {
      const absl::Status checked = CheckContents(output, raw);
      if (!checked.ok()) return checked;
    }
    const bool binary = !IsElsewhere(output) && forms.IsBinary(output.name());
    any_binary = any_binary || binary;
    if (binary) binary_bytes += raw.size();
    if (i > 0) body += ",";
    const absl::Status appended = AppendOutput(output, raw, binary, &body);
    if (!appended.ok()) return appended;
  }
  body += "]}";
  if (!any_binary) return answer;
  answer.json_bytes = body.size();
  body.reserve(body.size() + binary_bytes);
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (forms.IsBinary(response.outputs(i).name())) {
      body += response.raw_output_contents(i);
    }
  }
  return answer;
}

}  // namespace gpupool::server
