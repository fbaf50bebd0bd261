#include "server/api/inference/region_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/bytes_elements.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;
using Places = std::vector<std::optional<RegionPart>>;

constexpr char kRegion[] = "shared_memory_region";
constexpr char kByteSize[] = "shared_memory_byte_size";
constexpr char kOffset[] = "shared_memory_offset";

// The tensors of one side of a request, as texts name them.
constexpr char kInput[] = "input";
constexpr char kOutput[] = "output";

template <typename Tensors>
bool NameRegions(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.parameters().contains(kRegion);
  });
}

// Returns a parameter that is a number; nothing when it is not there.
absl::StatusOr<std::optional<uint64_t>> NumberOf(const ParameterMap& parameters,
                                                 const char* key) {
  const auto found = parameters.find(key);
  if (found == parameters.end()) return std::optional<uint64_t>();
  const inference::InferParameter& value = found->second;
  if (value.has_uint64_param()) {
    return std::optional<uint64_t>(value.uint64_param());
  }
  if (value.has_int64_param() && value.int64_param() >= 0) {
    return std::optional<uint64_t>(static_cast<uint64_t>(value.int64_param()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("invalid value type for '", key,
                   "' parameter, expected int64 from 0, or uint64"));
}

absl::StatusOr<RegionPart> FindPlace(const std::string& named,
                                     const ParameterMap& parameters,
                                     const RegionCaller& caller,
                                     const RegionBook& book) {
  const inference::InferParameter& name = parameters.at(kRegion);
  if (!name.has_string_param()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid value type for '", kRegion, "' parameter, expected string"));
  }
  ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes,
                   NumberOf(parameters, kByteSize));
  if (!bytes.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        named, " has the parameter '", kRegion, "' without '", kByteSize, "'"));
  }
  ASSIGN_OR_RETURN(const std::optional<uint64_t> offset,
                   NumberOf(parameters, kOffset));
  RegionPart place{.offset = offset.value_or(0), .bytes = *bytes};
  ASSIGN_OR_RETURN(place.region, book.Find(caller, name.string_param()));
  RETURN_IF_ERROR(place.region->CheckWindow(place.offset, place.bytes));
  return place;
}

// Returns the places of the tensors of one side; none at all if all of them are
// in the message.
template <typename Tensors>
absl::StatusOr<Places> PlacesOf(const char* side, const Tensors& tensors,
                                const RegionCaller& caller,
                                const RegionBook& book) {
  Places places;
  if (!NameRegions(tensors)) return places;
  places.resize(static_cast<size_t>(tensors.size()));
  for (int i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].parameters().contains(kRegion)) continue;
    ASSIGN_OR_RETURN(places[static_cast<size_t>(i)],
                     FindPlace(absl::StrCat(side, " '", tensors[i].name(), "'"),
                               tensors[i].parameters(), caller, book));
  }
  return places;
}

// Returns the bytes of a tensor by its data type and its shape, the fewest for
// texts. Nothing if no model has those.
std::optional<uint64_t> BytesOf(
    const inference::ModelInferRequest::InferInputTensor& input) {
  const v1::DataType type = ParseDataType(input.datatype());
  if (type == v1::DATA_TYPE_UNSPECIFIED) return std::nullopt;
  uint64_t bytes = type == v1::STRING ? kBytesElementHead : ElementBytes(type);
  for (const int64_t size : input.shape()) {
    if (size < 0 ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

absl::Status CheckFits(const std::string& output, uint64_t bytes,
                       const RegionPart& place) {
  if (bytes <= place.bytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("shared memory size specified with the request for output '",
                   output, "' (", place.bytes, " bytes) should be at least ",
                   bytes, " bytes to hold the results"));
}

}  // namespace

const RegionPart* RegionPlaces::Input(int index) const {
  if (inputs.empty()) return nullptr;
  const std::optional<RegionPart>& place = inputs[static_cast<size_t>(index)];
  return place.has_value() ? &*place : nullptr;
}

uint64_t RegionPlaces::InputBytes() const {
  uint64_t sum = 0;
  for (const std::optional<RegionPart>& place : inputs) {
    if (place.has_value() && __builtin_add_overflow(sum, place->bytes, &sum)) {
      return std::numeric_limits<uint64_t>::max();
    }
  }
  return sum;
}

bool NamesRegions(const inference::ModelInferRequest& request) {
  return NameRegions(request.inputs()) || NameRegions(request.outputs());
}

absl::StatusOr<RegionPlaces> FindPlaces(
    const inference::ModelInferRequest& request, const RegionCaller& caller,
    const RegionBook& book) {
  RegionPlaces places;
  ASSIGN_OR_RETURN(places.inputs,
                   PlacesOf(kInput, request.inputs(), caller, book));
  ASSIGN_OR_RETURN(places.outputs,
                   PlacesOf(kOutput, request.outputs(), caller, book));
  return places;
}

absl::Status SharedMemoryDisabled() {
  return absl::UnimplementedError(
      "Client shared memory is disabled; send the tensor in the request, or "
      "start the server with --shared-memory on");
}

absl::StatusOr<absl::Span<const std::byte>> ReadPlaced(
    absl::string_view model,
    const inference::ModelInferRequest::InferInputTensor& input,
    const RegionPart& place, std::string* copy) {
  if (input.has_contents()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "contents field must not be specified when using shared memory for "
        "input '",
        input.name(), "' for model ", model));
  }
  const std::optional<uint64_t> bytes = BytesOf(input);
  if (!bytes.has_value()) return absl::Span<const std::byte>();
  // CheckInputs checks the lengths in texts.
  const bool texts = ParseDataType(input.datatype()) == v1::STRING;
  if (texts ? place.bytes < *bytes : place.bytes != *bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", input.name(), "' for model ", model, " has a ", kByteSize,
        " of ", place.bytes, "; its datatype and its shape take ",
        texts ? "at least " : "", *bytes));
  }
  copy->resize(place.bytes);
  const absl::Span<std::byte> to(reinterpret_cast<std::byte*>(copy->data()),
                                 copy->size());
  RETURN_IF_ERROR(place.region->Read(place.offset, to));
  return absl::Span<const std::byte>(to);
}

absl::Status WritePlaced(absl::Span<const std::optional<RegionPart>> places,
                         inference::ModelInferResponse* response) {
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].has_value()) continue;
    const int index = static_cast<int>(i);
    RETURN_IF_ERROR(CheckFits(response->outputs(index).name(),
                              response->raw_output_contents(index).size(),
                              *places[i]));
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].has_value()) continue;
    const RegionPart& place = *places[i];
    const int index = static_cast<int>(i);
    RETURN_IF_ERROR(place.region->Write(place.offset,
                                        response->raw_output_contents(index)));
    response->mutable_raw_output_contents(index)->clear();
    ParameterMap& parameters =
        *response->mutable_outputs(index)->mutable_parameters();
    parameters[kRegion].set_string_param(place.region->spec().name);
    parameters[kOffset].set_int64_param(static_cast<int64_t>(place.offset));
    parameters[kByteSize].set_int64_param(static_cast<int64_t>(place.bytes));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
