#include "server/repository/config_tensors.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using engine::Refuse;
using google::protobuf::RepeatedPtrField;
using Tensors = RepeatedPtrField<v1::TensorSpec>;

bool HasBatch(const v1::TensorSpec& tensor) {
  return tensor.shape_size() > 0 && tensor.shape(0) == -1 &&
         (tensor.variable().empty() || tensor.variable(0).axis() != 0);
}

// Returns the dims that a config must have for the tensor.
std::vector<int64_t> DimsOf(const v1::TensorSpec& tensor, bool without_batch) {
  const int first = without_batch && HasBatch(tensor) ? 1 : 0;
  return {tensor.shape().begin() + first, tensor.shape().end()};
}

std::string DimsText(const std::vector<int64_t>& dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

std::string NamesOf(const Tensors& tensors) {
  return absl::StrJoin(tensors, ", ",
                       [](std::string* out, const v1::TensorSpec& tensor) {
                         absl::StrAppend(out, Quoted(tensor.name()));
                       });
}

const v1::TensorSpec* FindTensor(const Tensors& tensors,
                                 const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const auto& tensor) { return tensor.name() == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// Checks one tensor, a ModelInput or a ModelOutput.
template <typename Configured>
absl::Status CheckTensor(const std::string& what, const Configured& configured,
                         const v1::TensorSpec& tensor, bool without_batch) {
  const std::string type = ConfigTypeName(tensor.data_type());
  const std::string& given = inference::DataType_Name(configured.data_type());
  if (given != type) {
    return Refuse(what, ".data_type is ", given, ", the file has ", type,
                  "; write the type of the file");
  }
  const std::vector<int64_t> wanted = DimsOf(tensor, without_batch);
  const std::vector<int64_t> dims(configured.dims().begin(),
                                  configured.dims().end());
  if (dims == wanted) return absl::OkStatus();
  return Refuse(what, ".dims is ", DimsText(dims), ", the file has ",
                DimsText(wanted),
                without_batch ? " after the batch dimension" : "",
                "; write the dims of the file");
}

// The tensors of the file, and those of them that clients send or get.
struct FileTensors {
  const Tensors& all;
  const Tensors& of_clients;
};

template <typename Configured>
absl::Status CheckAll(const char* kind,
                      const RepeatedPtrField<Configured>& configured,
                      const FileTensors& file, bool without_batch) {
  if (configured.empty()) return absl::OkStatus();
  std::vector<std::string> seen;
  for (const Configured& entry : configured) {
    const std::string what = absl::StrCat(kind, " ", Quoted(entry.name()));
    const v1::TensorSpec* tensor = FindTensor(file.of_clients, entry.name());
    if (tensor == nullptr) {
      return Refuse(what, " is not in the file, which has ", NamesOf(file.all));
    }
    if (std::find(seen.begin(), seen.end(), entry.name()) != seen.end()) {
      return Refuse(what, " is listed twice");
    }
    seen.push_back(entry.name());
    RETURN_IF_ERROR(CheckTensor(what, entry, *tensor, without_batch));
  }
  const Tensors& wanted = file.of_clients;
  if (configured.size() == wanted.size()) return absl::OkStatus();
  return Refuse(kind, " lists ", configured.size(), " tensors, the file has ",
                wanted.size(),
                wanted.size() < file.all.size()
                    ? " that are no controls and no states: "
                    : ": ",
                NamesOf(wanted), "; list all or none");
}

// Returns which part of sequence_batching has the input of this name, for
// messages; "" if clients send it.
std::string PlaceInSequences(const inference::ModelSequenceBatching& batching,
                             const std::string& name) {
  for (int i = 0; i < batching.control_input_size(); ++i) {
    if (batching.control_input(i).name() == name) {
      return absl::StrCat("a control (sequence_batching.control_input[", i,
                          "])");
    }
  }
  for (int i = 0; i < batching.state_size(); ++i) {
    if (batching.state(i).input_name() == name) {
      return absl::StrCat("the input of a state (sequence_batching.state[", i,
                          "])");
    }
  }
  return "";
}

// Checks that the config lists no input that the server fills in.
absl::Status CheckListedInputs(const inference::ModelConfig& config,
                               const v1::Plan& plan) {
  for (const auto& input : config.input()) {
    const std::string place =
        PlaceInSequences(config.sequence_batching(), input.name());
    if (place.empty() || FindTensor(plan.inputs(), input.name()) == nullptr) {
      continue;
    }
    return Refuse("input ", Quoted(input.name()), " is ", place,
                  ", which the server fills in, so it is no input of clients; "
                  "remove it from input, or name another input of the file "
                  "there");
  }
  return absl::OkStatus();
}

// Returns the inputs that clients send: without controls and states.
Tensors InputsOfClients(const inference::ModelConfig& config,
                        const v1::Plan& plan) {
  Tensors inputs;
  for (const v1::TensorSpec& tensor : plan.inputs()) {
    if (PlaceInSequences(config.sequence_batching(), tensor.name()).empty()) {
      *inputs.Add() = tensor;
    }
  }
  return inputs;
}

// Keeps the outputs of states that the config lists among the outputs.
Tensors OutputsOfClients(const inference::ModelConfig& config,
                         const v1::Plan& plan) {
  Tensors outputs;
  for (const v1::TensorSpec& tensor : plan.outputs()) {
    const auto is_state = [&](const auto& state) {
      return state.output_name() == tensor.name();
    };
    const auto is_listed = [&](const auto& output) {
      return output.name() == tensor.name();
    };
    const auto& states = config.sequence_batching().state();
    if (std::any_of(states.begin(), states.end(), is_state) &&
        std::none_of(config.output().begin(), config.output().end(),
                     is_listed)) {
      continue;
    }
    *outputs.Add() = tensor;
  }
  return outputs;
}

// Compares the states with the input and the output of the file.
absl::Status CheckStates(const inference::ModelConfig& config,
                         const v1::Plan& plan, bool without_batch) {
  for (const auto& state : config.sequence_batching().state()) {
    const std::pair<const char*, const v1::TensorSpec*> places[] = {
        {"input", FindTensor(plan.inputs(), state.input_name())},
        {"output", FindTensor(plan.outputs(), state.output_name())}};
    for (const auto& [kind, tensor] : places) {
      // A name that is not in the file is refused with the other checks of
      // sequences.
      if (tensor == nullptr) continue;
      RETURN_IF_ERROR(
          CheckTensor(absl::StrCat("sequence_batching.state of ", kind, " ",
                                   Quoted(tensor->name())),
                      state, *tensor, without_batch));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const inference::ModelConfig& config, const v1::Plan& plan) {
  const bool without_batch = config.max_batch_size() > 0;
  if (without_batch &&
      std::none_of(plan.inputs().begin(), plan.inputs().end(), HasBatch)) {
    return Refuse("max_batch_size is ", config.max_batch_size(),
                  ", but no input of the file has a batch dimension; write "
                  "max_batch_size: 0 and the whole shapes as dims, or export "
                  "the model with a dynamic first dimension");
  }
  RETURN_IF_ERROR(CheckListedInputs(config, plan));
  const Tensors inputs = InputsOfClients(config, plan);
  const Tensors outputs = OutputsOfClients(config, plan);
  RETURN_IF_ERROR(CheckAll("input", config.input(), {plan.inputs(), inputs},
                           without_batch));
  RETURN_IF_ERROR(CheckAll("output", config.output(), {plan.outputs(), outputs},
                           without_batch));
  return CheckStates(config, plan, without_batch);
}

}  // namespace

absl::Status CheckConfigTensors(const inference::ModelConfig& config,
                                const v1::Plan& plan) {
  const absl::Status checked = Check(config, plan);
  if (checked.ok()) return checked;
  return Refuse("config.pbtxt: ", checked.message());
}

}  // namespace gpupool::server
