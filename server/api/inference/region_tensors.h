// Tensors of a ModelInferRequest that lie in shared memory of the client. The
// parameters of an input or an output say where: `shared_memory_region`,
// `shared_memory_byte_size`, and `shared_memory_offset`, which is 0 by default.
// Without a region the other two mean nothing.
//
// Pure functions but for the shared memory. Places hold their regions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "inference/grpc_service.pb.h"
#include "server/serving/regions/region_book.h"

namespace gpupool::server {

// A part of a region, which it was checked to be.
struct RegionPart {
  std::shared_ptr<const SharedRegion> region;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Places of the tensors of a request; nothing for a tensor in the request or
// the response itself.
struct RegionPlaces {
  // One for each tensor in the order of the request, or none at all if no input
  // or no output is in shared memory.
  std::vector<std::optional<RegionPart>> inputs;
  std::vector<std::optional<RegionPart>> outputs;

  // Returns the place of an input; null if it is in the request.
  const RegionPart* Input(int index) const;
  // Returns the bytes of all inputs in shared memory.
  uint64_t InputBytes() const;
};

// Returns whether a tensor of the request names a region.
bool NamesRegions(const inference::ModelInferRequest& request);

// Returns the places of the tensors. Does not compare them with the tensors.
// Errors:
//   * InvalidArgument: a parameter has another type or is not there, or the
//     part is not in the region
//   * NotFound, PermissionDenied: as RegionBook::Find
absl::StatusOr<RegionPlaces> FindPlaces(
    const inference::ModelInferRequest& request, const RegionCaller& caller,
    const RegionBook& book);

// Returns the error for a request that names regions where there are none.
absl::Status SharedMemoryDisabled();

// Copies an input from its place into `copy` and returns it. Nothing is read if
// the data type or the shape is one that no model has, which CheckInputs
// reports. `model` is the model's name in messages. Errors:
//   * InvalidArgument: the input has contents, too, or another number of bytes
//     than its place
//   * FailedPrecondition: as SharedRegion::Read
absl::StatusOr<absl::Span<const std::byte>> ReadPlaced(
    absl::string_view model,
    const inference::ModelInferRequest::InferInputTensor& input,
    const RegionPart& place, std::string* copy);

// Moves outputs of a complete response to their places. `places` has one for
// each output of the response, or none at all. An output that was moved has the
// parameters of its place, and its raw contents are empty. Nothing is written
// if one does not fit. Errors:
//   * Internal, as in Triton: a place is smaller than the output
//   * FailedPrecondition: as SharedRegion::Write
absl::Status WritePlaced(absl::Span<const std::optional<RegionPart>> places,
                         inference::ModelInferResponse* response);

}  // namespace gpupool::server
