// Private to server/http: an inference request of the REST protocol, which
// becomes a ModelInferRequest. The body is
//
//   JSON                                              without a header
//   JSON of N bytes, binary data of the inputs        with the header
//   elements of the only input                        with the header, N = 0
//
// where the header is Inference-Header-Content-Length: N. An input has its
// elements in "data", or its parameter "binary_data_size" has the bytes that it
// takes of the binary data, which is in the order of the inputs. An input in
// shared memory has neither. Fields that
// the protocol does not have are ignored, and so are fields that are null.
//
// Binary data are not copied before WireOf writes them into the message.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inference/grpc_service.pb.h"
#include "nlohmann/json_fwd.hpp"
#include "server/http/rest/output_forms.h"

namespace gpupool::server {

inline constexpr char kJsonLengthHeader[] = "Inference-Header-Content-Length";

// Limit of a body's JSON, because that takes more memory than its text.
inline constexpr size_t kMostJsonBytes = 16 << 20;

struct RestInferRequest {
  // The elements of an input, in the layout of raw_input_contents.
  struct Contents {
    std::string packed;      // of an input in JSON
    absl::string_view sent;  // of an input in binary data: a part of the body
    absl::string_view bytes() const {
      return sent.empty() ? absl::string_view(packed) : sent;
    }
  };

  inference::ModelInferRequest message;  // without raw_input_contents
  // One for each input that is not in shared memory.
  std::vector<Contents> contents;
  OutputForms forms;
};

// Returns the bytes of JSON that the header's value names. InvalidArgument for
// a value that is no number of 64 bits.
absl::StatusOr<uint64_t> ReadJsonLength(absl::string_view header);

// Returns the request without model and version. It refers to the body.
// `json_bytes` is the header's number, which is not 0. Checks the form only;
// the service checks tensors, parameters and outputs. Errors:
//   * InvalidArgument: the JSON has another form, an element does not fit its
//     datatype, or the sizes of the binary data are not those of the body
//   * ResourceExhausted: the JSON has more than kMostJsonBytes
absl::StatusOr<RestInferRequest> ReadInferRequest(
    absl::string_view body, std::optional<uint64_t> json_bytes);

// Returns the request whose body is the elements of the model's only input. The
// first size that the model leaves open is 1 if there are two, and the last
// follows from the bytes. All outputs are binary. InvalidArgument for a model
// with another number of inputs or with more open sizes, and for a part of an
// element.
absl::StatusOr<RestInferRequest> ReadRawRequest(
    const inference::ModelMetadataResponse& model, absl::string_view body);

// Sets a parameter to a boolean, a number or a string. Returns false for
// another value.
bool SetJsonParameter(const nlohmann::json& value,
                      inference::InferParameter* parameter);

// Returns the request in wire format, with the contents of its inputs.
std::string WireOf(const RestInferRequest& request);

}  // namespace gpupool::server
