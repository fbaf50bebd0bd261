// What every request of the v1 API must look like before anything is done with
// it. All functions answer InvalidArgument with the field, its value and the
// limit, or OK; those that take a pointer also fill in what the proto files
// call defaults. What needs the graph (shapes, layer arguments) is checked by
// the meta worker.
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

// Most bytes of one chunk of an upload.
inline constexpr size_t kMaxChunkBytes = size_t{1} << 20;

// [A-Za-z0-9_-][A-Za-z0-9._-]{0,127}; `field` is named in the error.
absl::Status CheckName(absl::string_view field, absl::string_view value);

// 1 .. 128 bytes, printable.
absl::Status CheckRequestId(absl::string_view request_id);

// An id from 1 up to what the store can hold.
absl::Status CheckId(absl::string_view field, uint64_t id);

// A precision that this build knows, or none.
absl::Status CheckPrecision(absl::string_view field, v1::Precision precision);

// "meta", "cpu:N" or "cuda:N".
absl::Status CheckDevice(absl::string_view device);

// Name, one or two files, sizes (their sum at most `limit_bytes`, also when
// the sum overflows), digests, layout. Fills in format and roles.
absl::Status CheckUploadHeader(v1::UploadDatasetRequest::Header* header,
                               uint64_t limit_bytes);

absl::Status CheckServingOptions(absl::string_view field,
                                 v1::ServingOptions* options);
absl::Status CheckPromote(v1::PromoteCheckpointRequest* request);

// 0.1 .. 3600 seconds; 0 means 1.
absl::StatusOr<absl::Duration> WatchInterval(
    const v1::WatchDevicesRequest& request);

// A value from outside for use in a message: at most 64 bytes, control
// characters escaped, in quotes.
std::string Quoted(absl::string_view value);

}  // namespace gpupool::server
