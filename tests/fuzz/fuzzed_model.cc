#include "tests/fuzz/fuzzed_model.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/onnx_import.h"
#include "tests/fuzz/dice.h"
#include "tests/fuzz/random_tensors.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx_import::HostTensor;
using onnx_import::OnnxBuildOptions;

constexpr int kSequenceLength = 2;
// No input of the fuzzer may have more elements.
constexpr int64_t kMostInputElements = int64_t{1} << 16;

// Returns numbers that fit a tensor of the input's type, or nothing when it has
// no type or an unreasonable shape.
absl::StatusOr<HostTensor> RandomInput(uint64_t seed, const std::string& name,
                                       const onnx::TypeProto_Tensor& type) {
  HostTensor tensor;
  ASSIGN_OR_RETURN(tensor.dtype, onnx_import::DTypeFromOnnx(type.elem_type()));
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) {
    dims.push_back(dim.has_dim_value() ? dim.dim_value() : kBatch);
  }
  ASSIGN_OR_RETURN(tensor.shape, Shape::CreateMaybeEmpty(dims));
  if (tensor.shape.elements() > kMostInputElements) {
    return absl::InvalidArgumentError("an input is too large for the fuzzer");
  }
  Dice dice(seed, PhiloxNameIndex(name));
  tensor.numbers = RandomNumbers(dice, tensor.dtype, tensor.shape.elements());
  return tensor;
}

struct Given {
  OnnxBuildOptions options;
  HostTensors tensors;
};

// Adds one tensor, or the elements of a sequence or optional.
absl::Status AddInput(uint64_t seed, const onnx::ValueInfoProto& input,
                      Given& given) {
  const onnx::TypeProto* type = &input.type();
  std::vector<std::string> ports{input.name()};
  if (type->has_optional_type()) type = &type->optional_type().elem_type();
  const bool sequence = type->has_sequence_type();
  if (sequence) type = &type->sequence_type().elem_type();
  if (sequence || input.type().has_optional_type()) {
    const int length = sequence ? kSequenceLength : 1;
    given.options.sequence_lengths[input.name()] = length;
    for (int i = 0; i < length; ++i) {
      ports.push_back(absl::StrCat(input.name(), "[", i, "]"));
    }
  }
  for (const std::string& port : ports) {
    ASSIGN_OR_RETURN(HostTensor tensor,
                     RandomInput(seed, port, type->tensor_type()));
    given.options.input_shapes[port] = tensor.shape;
    if (tensor.shape.elements() == 0) given.options.bound[port] = tensor;
    given.tensors[port] = std::move(tensor);
  }
  return absl::OkStatus();
}

absl::StatusOr<Given> InputsOf(const onnx::GraphProto& graph, uint64_t seed) {
  Given given;
  std::set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) {
    initializers.insert(tensor.name());
  }
  for (const auto& input : graph.input()) {
    if (initializers.contains(input.name())) continue;
    RETURN_IF_ERROR(AddInput(seed, input, given));
  }
  return given;
}

}  // namespace

absl::StatusOr<FuzzedModel> ImportFuzzed(const onnx::ModelProto& proto,
                                         uint64_t seed) {
  FuzzedModel result;
  ASSIGN_OR_RETURN(result.file,
                   onnx_import::OnnxFile::Parse(proto.SerializeAsString(), {}));
  RETURN_IF_ERROR(onnx_import::CheckOperators(*result.file));
  ASSIGN_OR_RETURN(Given given, InputsOf(proto.graph(), seed));
  given.options.batch = kBatch;
  for (;;) {
    absl::StatusOr<ModelGraph> model =
        onnx_import::ImportOnnx(*result.file, given.options);
    const size_t bound = given.options.bound.size();
    for (const std::string& name : onnx_import::NeededInputs(model.status())) {
      const auto input = given.tensors.find(name);
      if (input != given.tensors.end()) {
        given.options.bound[name] = input->second;
      }
    }
    if (!model.ok() && given.options.bound.size() != bound) continue;
    RETURN_IF_ERROR(model.status());
    result.model = *std::move(model);
    break;
  }
  for (const ModelPort& port : result.model.outputs) {
    result.model.graph.AddOutput(port.name, port.value);
  }
  result.inputs = std::move(given.tensors);
  return result;
}

}  // namespace gpupool::engine::fuzz
