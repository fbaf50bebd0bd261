// Checks the form of every request of the v1 API before anything is done with
// it. All functions return OK, or InvalidArgument with the field, its value and
// the limit. Those that take a pointer also fill in the defaults of the proto
// files. Checks that need the graph (shapes, layer arguments) are done by the
// meta worker.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Maximum size of one chunk of an upload.
inline constexpr size_t kMaxChunkBytes = size_t{1} << 20;

// Checks [A-Za-z0-9_-][A-Za-z0-9._-]{0,127}. The error names `field`.
absl::Status CheckName(absl::string_view field, absl::string_view value);

// Checks a name in which dots stand only between levels.
absl::Status CheckTenant(absl::string_view tenant);

// Checks 1 .. 128 printable bytes.
absl::Status CheckRequestId(absl::string_view request_id);

// Checks for an id from 1 up to the largest that the store can hold.
absl::Status CheckId(absl::string_view field, uint64_t id);

// Checks for a precision that this build knows, or none.
absl::Status CheckPrecision(absl::string_view field, v1::Precision precision);

// Checks for "cpu:N" or "cuda:N".
absl::Status CheckDevice(absl::string_view device);

// Checks name, files (one or two), sizes, digests and layout. The sum of the
// sizes must be at most `limit_bytes`, and overflow is detected. Fills in
// format and roles.
absl::Status CheckUploadHeader(v1::UploadDatasetRequest::Header* header,
                               uint64_t limit_bytes);

absl::Status CheckServingOptions(absl::string_view field,
                                 v1::ServingOptions* options);
absl::Status CheckPromote(v1::PromoteCheckpointRequest* request);

// Returns the interval: 0.1 .. 3600 seconds, and 1 second for 0.
absl::StatusOr<absl::Duration> WatchInterval(
    const v1::WatchDevicesRequest& request);

// Returns a client's value for use in a message: quoted, at most 64 bytes, with
// control characters escaped.
std::string Quoted(absl::string_view value);

}  // namespace gpupool::server
