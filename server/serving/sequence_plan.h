// The tensors of a version that serves sequences: the inputs that clients send,
// the inputs that the server fills in, and the outputs that it keeps for the
// next request.
//
// The state of a sequence is kept in the server's memory between its requests.
// It is copied into a slot with the inputs of each request, and out of it with
// the outputs.
//
// Pure functions. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/sequence_id.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

// Most bytes of the states of all sequences of a version.
inline constexpr uint64_t kMaxSequenceStateBytes = uint64_t{1} << 30;
inline constexpr absl::Duration kDefaultSequenceIdle = absl::Seconds(1);

struct SequencePlan {
  // Origin of an input of the model. `index` counts the inputs that clients
  // send, the controls or the states.
  enum class Origin { kClient, kControl, kState };
  struct Input {
    Origin origin = Origin::kClient;
    size_t index = 0;
  };
  // An input of one element that the server fills in.
  struct Control {
    v1::SequenceOptions::Control::Kind kind =
        v1::SequenceOptions::Control::KIND_UNSPECIFIED;
    std::string name;
    v1::DataType data_type = v1::DATA_TYPE_UNSPECIFIED;
    std::string when_false = {}, when_true = {};  // bytes of the element
  };
  struct State {
    size_t output = 0;  // index of the model's output
    v1::DataType data_type = v1::DATA_TYPE_UNSPECIFIED;
    uint64_t bytes = 0;        // of one row, as in requests
    uint64_t held_bytes = 0;   // of one row in a slot
    std::string initial = {};  // one row, as in requests; empty: zeros
  };

  std::string label;  // for messages: "'digits' version 1"
  v1::SequenceOptions options;
  // All tensors of the model, in its order.
  std::vector<TensorFormat> inputs;
  std::vector<TensorFormat> outputs;
  std::vector<Input> origins;  // one per input
  std::vector<Control> controls;
  std::vector<State> states;
  // Indices of the tensors that clients send and get.
  std::vector<size_t> sent;
  std::vector<size_t> answered;
  uint32_t max_sequences = 1;
  absl::Duration max_idle = kDefaultSequenceIdle;
};

// A model for which a plan is made. Borrowed.
struct SequenceModel {
  absl::string_view label;
  absl::Span<const TensorFormat> inputs;
  absl::Span<const TensorFormat> outputs;
  uint32_t max_batch_size = 1;
};

// Returns the plan of options that CheckSequenceOptions takes. InvalidArgument
// names the control or the state, the given
// and the allowed, and the remedy:
//   * a tensor that the model does not have, or that is named twice
//   * a type, a shape, or an initial state that does not fit
//   * nothing is left that clients send or get
//   * a limit above
absl::StatusOr<SequencePlan> MakeSequencePlan(
    const SequenceModel& model, const v1::SequenceOptions& options);

// Returns the bytes of the number of a sequence as an element of the control.
// InvalidArgument: the id is a text, or too large for the type.
absl::StatusOr<std::string> SequenceNumber(const SequencePlan& plan,
                                           const SequencePlan::Control& control,
                                           const SequenceId& id);

}  // namespace gpupool::server
