// Makes views of the tensors of a ModelInferRequest. Raw contents and typed
// contents of 32 and 64 bits are used in place; narrow typed integers are
// packed once, and tensors in shared memory are copied.
//
// Pure functions but for the shared memory. Views are valid as long as the
// request and the scratch memory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "inference/grpc_service.pb.h"
#include "server/api/inference/region_tensors.h"
#include "server/serving/sequence_id.h"
#include "server/serving/tensor/classification.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

struct RequestTensors {
  std::vector<TensorView> inputs;   // in the request's order
  std::vector<std::string> packed;  // memory of packed and copied inputs
};

// Makes views of the inputs. `model` is the model's name in messages. Does not
// compare them with what the model takes; CheckInputs does. Errors:
//   * InvalidArgument: raw and typed contents are mixed; data is missing, in
//     the wrong typed field or out of the data type's range; or there are more
//     raw entries than inputs without a place
//   * those of ReadPlaced
absl::StatusOr<RequestTensors> ViewInputs(
    absl::string_view model, const inference::ModelInferRequest& request,
    const RegionPlaces& places = {});

// Returns the outputs that the request asks for, with their positions in
// `formats`; all of them when it names none.
//   * InvalidArgument: an output is unknown or repeated, its classification is
//     no integer from 1, or it has no numbers to classify
absl::StatusOr<std::vector<AskedOutput>> SelectOutputs(
    absl::string_view model, absl::Span<const TensorFormat> formats,
    const inference::ModelInferRequest& request);

// Parameters of the request that concern the queue.
struct RequestParameters {
  absl::Duration timeout = absl::InfiniteDuration();
  SequencePlace sequence;
  // Whether a decoupled version is to end with a response without outputs.
  bool empty_final_response = false;
};

// Returns the parameters. InvalidArgument for a wrong type, a negative value, a
// sequence_id that is too long, or an unknown key that begins with the reserved
// "triton_".
absl::StatusOr<RequestParameters> ReadParameters(
    const inference::ModelInferRequest& request);

// Returns Unimplemented for a request that belongs to a sequence, for models
// that serve no sequences. `model` is the model's name in messages.
absl::Status RefuseSequence(absl::string_view model,
                            const SequencePlace& sequence);

}  // namespace gpupool::server
