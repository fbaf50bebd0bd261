#include "server/repository/config_sequences.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/sequence_options_check.h"
#include "server/repository/folder_scan.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using engine::Refuse;
using inference::ModelSequenceBatching;
using ConfiguredControl = ModelSequenceBatching::Control;
using ConfiguredState = ModelSequenceBatching::State;
using Control = v1::SequenceOptions::Control;

constexpr absl::string_view kField = "sequence_batching";

Control::Kind ReadKind(ConfiguredControl::Kind kind) {
  switch (kind) {
    case ConfiguredControl::CONTROL_SEQUENCE_START:
      return Control::START;
    case ConfiguredControl::CONTROL_SEQUENCE_READY:
      return Control::READY;
    case ConfiguredControl::CONTROL_SEQUENCE_END:
      return Control::END;
    case ConfiguredControl::CONTROL_SEQUENCE_CORRID:
      return Control::ID;
    default:
      return Control::KIND_UNSPECIFIED;
  }
}

absl::Status ReadNumber(const std::string& path,
                        const ConfiguredControl& configured, Control* control) {
  const std::string& type = inference::DataType_Name(configured.data_type());
  switch (configured.data_type()) {
    case inference::TYPE_INT32:
    case inference::TYPE_INT64:
    case inference::TYPE_UINT32:
    case inference::TYPE_UINT64:
      break;
    default:
      return Refuse(path, ".data_type is ", type,
                    "; write TYPE_INT32, TYPE_INT64, TYPE_UINT32 or "
                    "TYPE_UINT64, that of the file");
  }
  if (configured.int32_false_true_size() + configured.fp32_false_true_size() +
          configured.bool_false_true_size() >
      0) {
    return Refuse(path,
                  " has values for false and true, but its kind is "
                  "CONTROL_SEQUENCE_CORRID; remove them");
  }
  control->set_data_type(ParseDataType(absl::StripPrefix(type, "TYPE_")));
  return absl::OkStatus();
}

template <typename Values>
void SetFlag(v1::DataType type, const Values& values, Control* control) {
  control->set_data_type(type);
  control->set_false_value(static_cast<double>(values.Get(0)));
  control->set_true_value(static_cast<double>(values.Get(1)));
}

absl::Status ReadFlag(const std::string& path,
                      const ConfiguredControl& configured, Control* control) {
  const int int32s = configured.int32_false_true_size();
  const int floats = configured.fp32_false_true_size();
  const int bools = configured.bool_false_true_size();
  if (std::max({int32s, floats, bools}) != 2 || int32s + floats + bools != 2) {
    return Refuse(path,
                  " needs one of int32_false_true, fp32_false_true and "
                  "bool_false_true with two values, such as [ 0, 1 ]");
  }
  if (int32s > 0) {
    SetFlag(v1::INT32, configured.int32_false_true(), control);
  } else if (floats > 0) {
    SetFlag(v1::FLOAT32, configured.fp32_false_true(), control);
  } else {
    SetFlag(v1::BOOL, configured.bool_false_true(), control);
  }
  return absl::OkStatus();
}

absl::Status ReadControls(const ModelSequenceBatching& batching,
                          v1::SequenceOptions* options) {
  for (int i = 0; i < batching.control_input_size(); ++i) {
    const auto& configured = batching.control_input(i);
    const std::string path = absl::StrCat(kField, ".control_input[", i, "]");
    if (configured.name().empty()) return Refuse(path, ".name is empty");
    if (configured.control_size() != 1) {
      return Refuse(path, " (", Quoted(configured.name()), ") has ",
                    configured.control_size(),
                    " controls; write one for each input");
    }
    const std::string inside = absl::StrCat(path, ".control[0]");
    Control* control = options->add_controls();
    control->set_input(configured.name());
    control->set_kind(ReadKind(configured.control(0).kind()));
    RETURN_IF_ERROR(control->kind() == Control::ID
                        ? ReadNumber(inside, configured.control(0), control)
                        : ReadFlag(inside, configured.control(0), control));
  }
  return absl::OkStatus();
}

absl::Status CheckInitialState(const std::string& path,
                               const ConfiguredState& state) {
  if (state.initial_state_size() > 1) {
    return Refuse(path, ".initial_state has ", state.initial_state_size(),
                  " entries; a state begins in one way: leave one");
  }
  if (state.initial_state().empty()) return absl::OkStatus();
  const std::string inside = absl::StrCat(path, ".initial_state[0]");
  const auto& initial = state.initial_state(0);
  if (initial.data_type() != state.data_type()) {
    return Refuse(
        inside, ".data_type is ", inference::DataType_Name(initial.data_type()),
        ", that of the state is ", inference::DataType_Name(state.data_type()),
        "; make them equal");
  }
  if (!std::equal(initial.dims().begin(), initial.dims().end(),
                  state.dims().begin(), state.dims().end())) {
    return Refuse(inside, ".dims differs from ", path,
                  ".dims; make them equal");
  }
  if (initial.has_zero_data()) return absl::OkStatus();
  const std::string& file = initial.data_file();
  if (file.empty()) {
    return Refuse(inside, " has no data; write zero_data: true, or data_file");
  }
  if (absl::StrContains(file, '/') || file == "." || file == "..") {
    return Refuse(inside, ".data_file is ", Quoted(file),
                  "; name a file in the model's folder ", kInitialStateFolder);
  }
  return absl::OkStatus();
}

absl::Status ReadStates(const inference::ModelConfig& config,
                        v1::SequenceOptions* options) {
  const ModelSequenceBatching& batching = config.sequence_batching();
  for (int i = 0; i < batching.state_size(); ++i) {
    const ConfiguredState& configured = batching.state(i);
    const std::string path = absl::StrCat(kField, ".state[", i, "]");
    if (configured.input_name().empty()) {
      return Refuse(path, ".input_name is empty");
    }
    if (configured.output_name().empty()) {
      return Refuse(path, ".output_name is empty");
    }
    RETURN_IF_ERROR(CheckInitialState(path, configured));
    auto* state = options->add_states();
    state->set_input(configured.input_name());
    state->set_output(configured.output_name());
    state->set_answered(
        std::any_of(config.output().begin(), config.output().end(),
                    [&](const inference::ModelOutput& output) {
                      return output.name() == configured.output_name();
                    }));
  }
  return absl::OkStatus();
}

absl::Status ReadDirect(const ModelSequenceBatching::StrategyDirect& direct,
                        uint32_t max_batch_size, v1::SequenceOptions* options) {
  const float utilization = direct.minimum_slot_utilization();
  // Negates the whole range, so that NaN is refused, too.
  if (!(utilization >= 0 && utilization <= 1)) {
    return Refuse(kField, ".direct.minimum_slot_utilization is ", utilization,
                  "; it must be 0 .. 1");
  }
  options->set_direct(true);
  options->set_enough_requests(
      static_cast<uint32_t>(std::ceil(utilization * max_batch_size)));
  return absl::OkStatus();
}

absl::Status ReadOldest(const ModelSequenceBatching::StrategyOldest& oldest,
                        uint32_t max_batch_size, v1::SequenceOptions* options,
                        std::vector<std::string>* notes) {
  const int32_t candidates = oldest.max_candidate_sequences();
  if (candidates < 0 || candidates > static_cast<int64_t>(kMaxSequences)) {
    return Refuse(kField, ".oldest.max_candidate_sequences is ", candidates,
                  "; write 1 .. ", kMaxSequences, ", or 0 for max_batch_size");
  }
  options->set_max_sequences(static_cast<uint32_t>(candidates));
  for (const int32_t size : oldest.preferred_batch_size()) {
    if (size >= 1 && size <= static_cast<int64_t>(max_batch_size)) continue;
    return Refuse(kField, ".oldest.preferred_batch_size has ", size,
                  "; it must be 1 .. ", max_batch_size,
                  ", which is max_batch_size");
  }
  if (oldest.preferred_batch_size_size() > 0) {
    notes->push_back(absl::StrCat(
        kField,
        ".oldest.preferred_batch_size is a hint that is not needed: a batch "
        "leaves when it is full or max_queue_delay_microseconds is over"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t SequenceDelayMicroseconds(const ModelSequenceBatching& batching) {
  if (batching.has_oldest()) {
    return batching.oldest().max_queue_delay_microseconds();
  }
  // As in Triton, without a utilization nothing is waited for.
  return batching.direct().minimum_slot_utilization() > 0
             ? batching.direct().max_queue_delay_microseconds()
             : 0;
}

absl::StatusOr<v1::SequenceOptions> ReadSequences(
    const inference::ModelConfig& config, uint32_t max_batch_size,
    std::vector<std::string>* notes) {
  const ModelSequenceBatching& batching = config.sequence_batching();
  v1::SequenceOptions options;
  options.set_max_idle_microseconds(batching.max_sequence_idle_microseconds());
  if (batching.has_oldest()) {
    RETURN_IF_ERROR(
        ReadOldest(batching.oldest(), max_batch_size, &options, notes));
  } else {
    RETURN_IF_ERROR(ReadDirect(batching.direct(), max_batch_size, &options));
  }
  RETURN_IF_ERROR(ReadControls(batching, &options));
  RETURN_IF_ERROR(ReadStates(config, &options));
  if (batching.max_sequence_idle_microseconds() > kMaxIdleMicroseconds) {
    return Refuse(kField, ".max_sequence_idle_microseconds is ",
                  batching.max_sequence_idle_microseconds(), "; the limit is ",
                  kMaxIdleMicroseconds, ", one day");
  }
  RETURN_IF_ERROR(CheckSequenceOptions(kField, options));
  return options;
}

absl::Status ReadInitialStates(const ConfinedFolder& root,
                               absl::string_view model,
                               const inference::ModelConfig& config,
                               v1::SequenceOptions* options) {
  const ModelSequenceBatching& batching = config.sequence_batching();
  for (int i = 0; i < batching.state_size(); ++i) {
    if (batching.state(i).initial_state().empty()) continue;
    const auto& initial = batching.state(i).initial_state(0);
    if (!initial.has_data_file()) continue;
    const std::string path =
        absl::StrCat(model, "/", kInitialStateFolder, "/", initial.data_file());
    const auto bytes = root.Read(path, kMaxInitialStateBytes);
    if (!bytes.ok()) {
      return Refuse("config.pbtxt: ", kField, ".state[", i,
                    "].initial_state[0].data_file: ", path, " ",
                    bytes.status().message());
    }
    if (bytes->empty()) {
      return Refuse("config.pbtxt: ", kField, ".state[", i,
                    "].initial_state[0].data_file: ", path,
                    " is empty; write zero_data: true for zeros");
    }
    options->mutable_states(i)->set_initial(*bytes);
  }
  const absl::Status checked = CheckSequenceOptions(kField, *options);
  if (checked.ok()) return checked;
  return Refuse("config.pbtxt: ", checked.message());
}

}  // namespace gpupool::server
