// Private to server/store: sums of usage for one request.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpupool/v1/usage.pb.h"
#include "server/store/store_reader.h"

namespace gpupool::server {

// Returns the sums. InvalidArgument when the times are in the wrong order, or
// for a page token that it did not make.
absl::StatusOr<v1::GetUsageResponse> ReportUsage(
    const StoreReader& reader, const v1::GetUsageRequest& request,
    absl::Time now);

}  // namespace gpupool::server
