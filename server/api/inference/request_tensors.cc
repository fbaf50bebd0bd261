#include "server/api/inference/request_tensors.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/bytes_elements.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using InputTensor = ModelInferRequest::InferInputTensor;

constexpr absl::string_view kClassification = "classification";

absl::Span<const std::byte> AsBytes(const void* data, size_t bytes) {
  return absl::MakeConstSpan(static_cast<const std::byte*>(data), bytes);
}

template <typename Field>
absl::Span<const std::byte> InPlace(const Field& field) {
  return AsBytes(field.data(),
                 field.size() * sizeof(typename Field::value_type));
}

// Packs a typed field whose elements have more bits than the data type. Fails
// for a value that does not fit.
template <typename Narrow, typename Field>
absl::StatusOr<absl::Span<const std::byte>> Pack(const InputTensor& input,
                                                 const Field& field,
                                                 std::string* packed) {
  using Wide = typename Field::value_type;
  packed->resize(field.size() * sizeof(Narrow));
  Narrow* out = reinterpret_cast<Narrow*>(packed->data());
  for (Wide value : field) {
    if (value < static_cast<Wide>(std::numeric_limits<Narrow>::min()) ||
        value > static_cast<Wide>(std::numeric_limits<Narrow>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("value ", value, " in the contents of input '",
                       input.name(), "' does not fit ", input.datatype()));
    }
    *out++ = static_cast<Narrow>(value);
  }
  return AsBytes(packed->data(), packed->size());
}

// Packs texts as raw contents have them.
absl::Span<const std::byte> PackTexts(const InferTensorContents& contents,
                                      std::string* packed) {
  for (const std::string& text : contents.bytes_contents()) {
    AppendBytesElement(text, packed);
  }
  return AsBytes(packed->data(), packed->size());
}

// Returns how many typed fields have elements. More than one is an error.
int FieldsInUse(const InferTensorContents& contents) {
  int fields = 0;
  for (int size :
       {contents.bool_contents_size(), contents.int_contents_size(),
        contents.int64_contents_size(), contents.uint_contents_size(),
        contents.uint64_contents_size(), contents.fp32_contents_size(),
        contents.fp64_contents_size(), contents.bytes_contents_size()}) {
    if (size > 0) ++fields;
  }
  return fields;
}

// Returns the elements of the field that belongs to the data type; empty when
// the field is not in use.
absl::StatusOr<absl::Span<const std::byte>> TypedBytes(const InputTensor& input,
                                                       v1::DataType type,
                                                       std::string* packed) {
  const InferTensorContents& contents = input.contents();
  switch (type) {
    case v1::FLOAT32:
      return InPlace(contents.fp32_contents());
    case v1::FLOAT64:
      return InPlace(contents.fp64_contents());
    case v1::INT32:
      return InPlace(contents.int_contents());
    case v1::INT64:
      return InPlace(contents.int64_contents());
    case v1::BOOL:
      return InPlace(contents.bool_contents());
    case v1::INT8:
      return Pack<int8_t>(input, contents.int_contents(), packed);
    case v1::INT16:
      return Pack<int16_t>(input, contents.int_contents(), packed);
    case v1::UINT8:
      return Pack<uint8_t>(input, contents.uint_contents(), packed);
    case v1::UINT16:
      return Pack<uint16_t>(input, contents.uint_contents(), packed);
    case v1::UINT32:
      return InPlace(contents.uint_contents());
    case v1::UINT64:
      return InPlace(contents.uint64_contents());
    case v1::STRING:
      return PackTexts(contents, packed);
    case v1::FLOAT16:
    case v1::BFLOAT16:
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", input.name(), "' of datatype ", input.datatype(),
          " must be sent in raw_input_contents"));
    default:
      return absl::Span<const std::byte>();
  }
}

absl::StatusOr<absl::Span<const std::byte>> ViewTyped(absl::string_view model,
                                                      const InputTensor& input,
                                                      std::string* packed) {
  const int fields = FieldsInUse(input.contents());
  if (fields == 0) {
    // A tensor without elements has no contents.
    if (std::count(input.shape().begin(), input.shape().end(), 0) > 0) {
      return absl::Span<const std::byte>();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("unable to find data for input tensor '", input.name(),
                     "' for model ", model, " in request"));
  }
  const v1::DataType type = ParseDataType(input.datatype());
  if (type == v1::DATA_TYPE_UNSPECIFIED) {
    // No model has this type. CheckInputs reports the expected one.
    return absl::Span<const std::byte>();
  }
  ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes,
                   TypedBytes(input, type, packed));
  if (fields > 1 || bytes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected explicit tensor data for input tensor '", input.name(),
        "' for model ", model, " of type '", input.datatype(),
        "'; use the contents field of that type only"));
  }
  return bytes;
}

// Checks that raw contents are there once for each input that is not in shared
// memory, and that no input has typed contents besides.
absl::Status CheckRaw(absl::string_view model, const ModelInferRequest& request,
                      const RegionPlaces& places) {
  const int raw = request.raw_input_contents_size();
  int inputs = 0;  // in the request
  const InputTensor* missing = nullptr;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const InputTensor& input = request.inputs(i);
    if (input.has_contents()) {
      return absl::InvalidArgumentError(
          absl::StrCat("contents field must not be specified when using "
                       "raw_input_contents for '",
                       input.name(), "' for model ", model));
    }
    if (places.Input(i) != nullptr) continue;
    if (inputs == raw) missing = &input;
    ++inputs;
  }
  const std::string counted =
      engine::Counted(static_cast<uint64_t>(inputs), "input");
  if (missing != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unable to find data for input tensor '", missing->name(),
                     "' for model ", model, " in request: it has ", raw,
                     " raw_input_contents for ", counted));
  }
  if (raw > inputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request has ", raw, " raw_input_contents for ",
                     counted, "; send one for each input",
                     places.inputs.empty() ? "" : " outside shared memory"));
  }
  return absl::OkStatus();
}

absl::Status WrongParameter(absl::string_view key, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid value type for '", key, "' parameter, expected ", wanted));
}

// Returns the most classes of a row that the request wants of an output; 0: the
// output itself.
absl::StatusOr<uint32_t> ReadClasses(
    const ModelInferRequest::InferRequestedOutputTensor& output,
    const TensorFormat& format) {
  const auto found = output.parameters().find(std::string(kClassification));
  if (found == output.parameters().end()) return 0;
  const InferParameter& value = found->second;
  if (!value.has_int64_param() && !value.has_uint64_param()) {
    return WrongParameter(kClassification,
                          "int64 from 1, the number of classes");
  }
  if (value.int64_param() < 1 && value.uint64_param() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter 'classification' of output '", output.name(), "' is ",
        value.int64_param(), "; ask for 1 class or more"));
  }
  RETURN_IF_ERROR(CheckClassified(output.name(), format.data_type));
  const uint64_t classes = value.has_uint64_param()
                               ? value.uint64_param()
                               : static_cast<uint64_t>(value.int64_param());
  // More classes than there are is all of them.
  return static_cast<uint32_t>(
      std::min<uint64_t>(classes, std::numeric_limits<uint32_t>::max()));
}

absl::Status CheckPriority(const InferParameter& value) {
  if (value.has_uint64_param()) return absl::OkStatus();
  if (!value.has_int64_param() || value.int64_param() < 0) {
    return WrongParameter("priority", "uint64, or int64 from 0");
  }
  return absl::OkStatus();
}

// Returns the value of a parameter for messages.
std::string ShownValue(const InferParameter& value) {
  if (value.has_bool_param()) return value.bool_param() ? "true" : "false";
  if (value.has_int64_param()) return absl::StrCat(value.int64_param());
  if (!value.has_double_param()) return "no value";
  // Shows all digits of whole numbers that are too large for an integer.
  return absl::StrFormat("the floating-point number %.20g",
                         value.double_param());
}

// Reads an id; 0 and "" say that the request belongs to no sequence.
absl::StatusOr<SequenceId> ReadSequenceId(const InferParameter& value) {
  if (value.has_uint64_param()) {
    return SequenceId{.number = value.uint64_param(), .text = ""};
  }
  if (value.has_int64_param() && value.int64_param() >= 0) {
    return SequenceId{.number = static_cast<uint64_t>(value.int64_param()),
                      .text = ""};
  }
  if (!value.has_string_param()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid value for 'sequence_id' parameter: ", ShownValue(value),
        "; expected a whole number from 1 to ",
        std::numeric_limits<uint64_t>::max(),
        " (over gRPC as int64_param or uint64_param, over HTTP without a "
        "fraction), or a string of 1 to ",
        kMaxSequenceIdBytes,
        " bytes; 0 and \"\" say that the request belongs to no sequence"));
  }
  if (value.string_param().size() > kMaxSequenceIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter 'sequence_id' has ", value.string_param().size(),
        " bytes; the limit is ", kMaxSequenceIdBytes));
  }
  return SequenceId{.number = 0, .text = value.string_param()};
}

absl::StatusOr<bool> ReadFlag(absl::string_view key,
                              const InferParameter& value) {
  if (!value.has_bool_param()) return WrongParameter(key, "bool");
  return value.bool_param();
}

absl::StatusOr<absl::Duration> ReadTimeout(const InferParameter& value) {
  if (!value.has_int64_param() || value.int64_param() < 0) {
    return WrongParameter("timeout", "int64 from 0, in microseconds");
  }
  // In the protocol 0 means no timeout.
  return value.int64_param() == 0 ? absl::InfiniteDuration()
                                  : absl::Microseconds(value.int64_param());
}

// Takes unknown keys unless they are reserved.
absl::Status CheckOther(absl::string_view key) {
  if (absl::StartsWith(key, "triton_")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter keys starting with 'triton_' are reserved: '", key, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RequestTensors> ViewInputs(absl::string_view model,
                                          const ModelInferRequest& request,
                                          const RegionPlaces& places) {
  const bool raw = request.raw_input_contents_size() > 0;
  if (raw) RETURN_IF_ERROR(CheckRaw(model, request, places));
  RequestTensors tensors;
  tensors.inputs.reserve(request.inputs_size());
  // Sized once: spans point into these strings, so the vector must not grow.
  const bool packs = !raw || !places.inputs.empty();
  tensors.packed.resize(packs ? request.inputs_size() : 0);
  int next_raw = 0;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const InputTensor& input = request.inputs(i);
    const RegionPart* const place = places.Input(i);
    absl::Span<const std::byte> bytes;
    if (place != nullptr) {
      ASSIGN_OR_RETURN(bytes,
                       ReadPlaced(model, input, *place, &tensors.packed[i]));
    } else if (raw) {
      const std::string& content = request.raw_input_contents(next_raw++);
      bytes = AsBytes(content.data(), content.size());
    } else {
      ASSIGN_OR_RETURN(bytes, ViewTyped(model, input, &tensors.packed[i]));
    }
    tensors.inputs.push_back({.name = input.name(),
                              .data_type = input.datatype(),
                              .shape = input.shape(),
                              .bytes = bytes});
  }
  return tensors;
}

absl::StatusOr<std::vector<AskedOutput>> SelectOutputs(
    absl::string_view model, absl::Span<const TensorFormat> formats,
    const ModelInferRequest& request) {
  std::vector<AskedOutput> selected;
  for (const auto& output : request.outputs()) {
    const auto it = std::find_if(formats.begin(), formats.end(),
                                 [&](const TensorFormat& format) {
                                   return format.name == output.name();
                                 });
    if (it == formats.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected inference output '", output.name(), "' for model ", model,
          "; it gives ",
          absl::StrJoin(formats, ", ",
                        [](std::string* out, const auto& format) {
                          absl::StrAppend(out, "'", format.name, "'");
                        })));
    }
    const int index = static_cast<int>(it - formats.begin());
    if (std::any_of(
            selected.begin(), selected.end(),
            [&](const AskedOutput& asked) { return asked.index == index; })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output '", output.name(), "' already exists in request"));
    }
    ASSIGN_OR_RETURN(const uint32_t classes, ReadClasses(output, *it));
    selected.push_back({.index = index, .classes = classes});
  }
  if (selected.empty()) {
    for (size_t i = 0; i < formats.size(); ++i) {
      selected.push_back({.index = static_cast<int>(i)});
    }
  }
  return selected;
}

absl::StatusOr<RequestParameters> ReadParameters(
    const ModelInferRequest& request) {
  RequestParameters parameters;
  for (const auto& [key, value] : request.parameters()) {
    if (key == "timeout") {
      ASSIGN_OR_RETURN(parameters.timeout, ReadTimeout(value));
    } else if (key == "priority") {
      RETURN_IF_ERROR(CheckPriority(value));
    } else if (key == "sequence_id") {
      ASSIGN_OR_RETURN(parameters.sequence.id, ReadSequenceId(value));
    } else if (key == "sequence_start") {
      ASSIGN_OR_RETURN(parameters.sequence.start, ReadFlag(key, value));
    } else if (key == "sequence_end") {
      ASSIGN_OR_RETURN(parameters.sequence.end, ReadFlag(key, value));
    } else if (key == "triton_enable_empty_final_response") {
      ASSIGN_OR_RETURN(parameters.empty_final_response, ReadFlag(key, value));
    } else {
      RETURN_IF_ERROR(CheckOther(key));
    }
  }
  return parameters;
}

absl::Status RefuseSequence(absl::string_view model,
                            const SequencePlace& sequence) {
  if (sequence.IsEmpty()) return absl::OkStatus();
  const char* key = sequence.id.IsSet() ? "sequence_id"
                    : sequence.start    ? "sequence_start"
                                        : "sequence_end";
  return absl::UnimplementedError(absl::StrCat(
      "parameter '", key, "': model ", model,
      " serves no sequences, each request is computed by itself; leave the "
      "parameter out, or write sequence_batching into the model's "
      "config.pbtxt"));
}

}  // namespace gpupool::server
