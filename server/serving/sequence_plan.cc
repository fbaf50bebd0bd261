#include "server/serving/sequence_plan.h"

#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/served_sizes.h"

namespace gpupool::server {
namespace {

using engine::Refuse;
using SequenceControl = v1::SequenceOptions::Control;

// Returns the bytes of an element.
std::string FlagBytes(v1::DataType type, double number) {
  const std::vector<std::byte> bytes = ElementOf(type, number);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string TensorNames(absl::Span<const TensorFormat> formats) {
  return absl::StrJoin(formats, ", ", [](std::string* out, const auto& format) {
    absl::StrAppend(out, "'", format.name, "'");
  });
}

std::optional<size_t> TensorIndex(absl::Span<const TensorFormat> formats,
                                  absl::string_view name) {
  for (size_t i = 0; i < formats.size(); ++i) {
    if (formats[i].name == name) return i;
  }
  return std::nullopt;
}

// Makes the plan of one model.
class SequencePlanMaker {
 public:
  SequencePlanMaker(const SequenceModel& model,
                    const v1::SequenceOptions& options)
      : model_(model), options_(options), taken_(model.inputs.size(), false) {}

  absl::StatusOr<SequencePlan> Make() {
    plan_.label = std::string(model_.label);
    plan_.options = options_;
    plan_.inputs = {model_.inputs.begin(), model_.inputs.end()};
    plan_.outputs = {model_.outputs.begin(), model_.outputs.end()};
    plan_.origins.resize(model_.inputs.size());
    for (const auto& control : options_.controls()) {
      RETURN_IF_ERROR(AddControl(control));
    }
    std::vector<bool> hidden(model_.outputs.size(), false);
    for (const auto& state : options_.states()) {
      RETURN_IF_ERROR(AddState(state, &hidden));
    }
    RETURN_IF_ERROR(AddTensorsOfClients(hidden));
    RETURN_IF_ERROR(SetLimits());
    return std::move(plan_);
  }

 private:
  template <typename... Parts>
  absl::Status Refused(const Parts&... parts) const {
    return Refuse("sequences of model ", model_.label, ": ", parts...);
  }

  // Returns the index of an input that nothing else fills in.
  absl::StatusOr<size_t> TakeInput(const std::string& what,
                                   const std::string& name) {
    const std::optional<size_t> index = TensorIndex(model_.inputs, name);
    if (!index.has_value()) {
      return Refused(what, " is not in the file, which has the inputs ",
                     TensorNames(model_.inputs));
    }
    if (taken_[*index]) {
      return Refused(what,
                     " is listed twice; give each input one control or "
                     "one state");
    }
    taken_[*index] = true;
    return *index;
  }

  absl::Status AddControl(const v1::SequenceOptions::Control& control) {
    const std::string what =
        absl::StrCat("control input '", control.input(), "'");
    ASSIGN_OR_RETURN(const size_t index, TakeInput(what, control.input()));
    const TensorFormat& format = model_.inputs[index];
    RETURN_IF_ERROR(CheckControl(what, control, format));
    plan_.origins[index] = {SequencePlan::Origin::kControl,
                            plan_.controls.size()};
    SequencePlan::Control made{.kind = control.kind(),
                               .name = control.input(),
                               .data_type = format.data_type};
    if (control.kind() != SequenceControl::ID) {
      made.when_false = FlagBytes(format.data_type, control.false_value());
      made.when_true = FlagBytes(format.data_type, control.true_value());
    }
    plan_.controls.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::Status CheckControl(const std::string& what,
                            const v1::SequenceOptions::Control& control,
                            const TensorFormat& format) const {
    const v1::DataType type = format.data_type;
    const bool is_id = control.kind() == SequenceControl::ID;
    const bool fits =
        is_id ? type == v1::INT32 || type == v1::INT64 || type == v1::UINT32 ||
                    type == v1::UINT64
              : type == v1::INT32 || type == v1::FLOAT32 || type == v1::BOOL;
    if (!fits) {
      return Refused(what, " is ", DataTypeName(type), " in the file; ",
                     is_id ? "the number of a sequence is INT32, INT64, "
                             "UINT32 or UINT64"
                           : "a flag is INT32, FP32 or BOOL");
    }
    if (control.data_type() != v1::DATA_TYPE_UNSPECIFIED &&
        control.data_type() != type) {
      return Refused(what, " is ", DataTypeName(control.data_type()),
                     ", the file has ", DataTypeName(type),
                     "; write the type of the file");
    }
    for (const double value : {control.false_value(), control.true_value()}) {
      if (type != v1::BOOL || is_id || value == 0 || value == 1) continue;
      return Refused(what, " has the value ", value,
                     ", and BOOL in the file; write 0 or 1");
    }
    const bool one = format.variable.empty() &&
                     format.row_bytes == ElementBytes(HeldType(type));
    if (one) return absl::OkStatus();
    return Refused(what, " has the shape ", ShapeText(format),
                   " in the file; a control has one element in a request");
  }

  absl::Status AddState(const v1::SequenceOptions::State& state,
                        std::vector<bool>* hidden) {
    const std::string what = absl::StrCat("state '", state.input(), "'");
    ASSIGN_OR_RETURN(
        const size_t input,
        TakeInput(absl::StrCat(what, " as an input"), state.input()));
    const std::optional<size_t> output =
        TensorIndex(model_.outputs, state.output());
    if (!output.has_value()) {
      return Refused(what, " comes from the output '", state.output(),
                     "', which is not in the file; it has ",
                     TensorNames(model_.outputs));
    }
    const TensorFormat& in = model_.inputs[input];
    const TensorFormat& out = model_.outputs[*output];
    RETURN_IF_ERROR(CheckState(what, in, out));
    const uint64_t bytes = in.SentRowBytes({});
    if (!state.initial().empty() && state.initial().size() != bytes) {
      return Refused(what, " begins with ", state.initial().size(),
                     " bytes, but has ", bytes, ": ", ShapeText(in), " of ",
                     DataTypeName(in.data_type));
    }
    plan_.origins[input] = {SequencePlan::Origin::kState, plan_.states.size()};
    plan_.states.push_back({.output = *output,
                            .data_type = in.data_type,
                            .bytes = bytes,
                            .held_bytes = in.RowBytes({}),
                            .initial = state.initial()});
    if (!state.answered()) (*hidden)[*output] = true;
    return absl::OkStatus();
  }

  absl::Status CheckState(const std::string& what, const TensorFormat& in,
                          const TensorFormat& out) const {
    for (const TensorFormat* format : {&in, &out}) {
      if (format->variable.empty()) continue;
      return Refused(what, ": '", format->name, "' has the shape ",
                     ShapeText(*format),
                     "; a state has one size, apart from the batch");
    }
    if (in.data_type != out.data_type) {
      return Refused(what, " is ", DataTypeName(in.data_type),
                     " as the input '", in.name, "' and ",
                     DataTypeName(out.data_type), " as the output '", out.name,
                     "'; make them equal");
    }
    if (in.row_shape == out.row_shape) return absl::OkStatus();
    return Refused(what, " has the shape ", ShapeText(in), " as the input '",
                   in.name, "' and ", ShapeText(out), " as the output '",
                   out.name, "'; make them equal");
  }

  absl::Status AddTensorsOfClients(const std::vector<bool>& hidden) {
    for (size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i]) continue;
      plan_.origins[i] = {SequencePlan::Origin::kClient, plan_.sent.size()};
      plan_.sent.push_back(i);
    }
    for (size_t i = 0; i < hidden.size(); ++i) {
      if (!hidden[i]) plan_.answered.push_back(i);
    }
    if (plan_.sent.empty()) {
      return Refused(
          "all inputs are controls or states; leave one for clients to send");
    }
    if (plan_.answered.empty()) {
      return Refused(
          "all outputs are states; leave one for clients, or list a state's "
          "output among the outputs");
    }
    return absl::OkStatus();
  }

  absl::Status SetLimits() {
    plan_.max_sequences = options_.max_sequences() == 0
                              ? model_.max_batch_size
                              : options_.max_sequences();
    if (options_.max_idle_microseconds() > 0) {
      plan_.max_idle = absl::Microseconds(options_.max_idle_microseconds());
    }
    uint64_t bytes = 0;  // of one sequence
    for (const SequencePlan::State& state : plan_.states) {
      bytes += state.bytes;
    }
    if (bytes <= kMaxSequenceStateBytes / plan_.max_sequences) {
      return absl::OkStatus();
    }
    return Refused("the states of ", plan_.max_sequences,
                   " sequences have up to ", bytes, " bytes each, more than ",
                   kMaxSequenceStateBytes,
                   " together; allow fewer sequences at a time");
  }

  const SequenceModel& model_;
  const v1::SequenceOptions& options_;
  std::vector<bool> taken_;  // inputs that are a control or a state
  SequencePlan plan_;
};

}  // namespace

absl::StatusOr<SequencePlan> MakeSequencePlan(
    const SequenceModel& model, const v1::SequenceOptions& options) {
  return SequencePlanMaker(model, options).Make();
}

absl::StatusOr<std::string> SequenceNumber(const SequencePlan& plan,
                                           const SequencePlan::Control& control,
                                           const SequenceId& id) {
  if (!id.text.empty()) {
    return Refuse("sequence_id is ", id.Shown(), ", but model ", plan.label,
                  " takes the number of the sequence as its input '",
                  control.name, "'; send a number");
  }
  // UINT64 is computed as INT64.
  uint64_t most = std::numeric_limits<int64_t>::max();
  if (control.data_type == v1::INT32) {
    most = std::numeric_limits<int32_t>::max();
  } else if (control.data_type == v1::UINT32) {
    most = std::numeric_limits<uint32_t>::max();
  }
  if (id.number > most) {
    return Refuse("sequence_id is ", id.number, ", but input '", control.name,
                  "' of model ", plan.label, " is ",
                  DataTypeName(control.data_type), "; send at most ", most);
  }
  // The machine is little-endian, so that the low bytes come first.
  std::string bytes(ElementBytes(control.data_type), '\0');
  std::memcpy(bytes.data(), &id.number, bytes.size());
  return bytes;
}

}  // namespace gpupool::server
